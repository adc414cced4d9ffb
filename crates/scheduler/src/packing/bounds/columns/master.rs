//! The linear programme over the columns known so far: the least number of patterns that cover every type as often as it
//! is wanted. Revised simplex with a dense inverse of the basis (Dantzig and Orchard-Hays, 1954). Owns the basis; prices
//! are only as exact as floating point, and whoever uses them must not rely on more.

/// A column that may enter.
#[derive(Clone, Debug)]
pub(super) enum Column {
    /// A bin with so many of each type: positions and counts.
    Pattern(Vec<(usize, u32)>),
    /// More of a type than is wanted.
    Surplus(usize),
}

/// The inverse is computed afresh after so many exchanges.
const REFRESH: usize = 100;

/// Smaller numbers are no pivots.
const PIVOT: f64 = 1e-9;

pub(super) struct Master {
    size: usize,
    wanted: Vec<f64>,
    basis: Vec<Column>,
    /// Row after row.
    inverse: Vec<f64>,
    amounts: Vec<f64>,
    exchanges: usize,
}

impl Master {
    /// Begins with one bin for each single item.
    pub(super) fn new(wanted: &[f64]) -> Self {
        let size = wanted.len();
        let mut inverse = vec![0.0; size * size];
        inverse.iter_mut().step_by(size + 1).for_each(|one| *one = 1.0);
        let basis = (0..size).map(|of| Column::Pattern(vec![(of, 1)])).collect();
        Self { size, wanted: wanted.to_vec(), basis, inverse, amounts: wanted.to_vec(), exchanges: 0 }
    }

    fn row(&self, row: usize) -> &[f64] {
        &self.inverse[row * self.size..(row + 1) * self.size]
    }

    fn cost(column: &Column) -> f64 {
        if matches!(column, Column::Pattern(_)) { 1.0 } else { 0.0 }
    }

    /// How many bins the programme needs now.
    pub(super) fn value(&self) -> f64 {
        let used = self.basis.iter().zip(&self.amounts).map(|(column, amount)| Self::cost(column) * amount);
        // What rounding adds must not become a bin.
        used.sum::<f64>() - 1e-6
    }

    /// The price of each type, `None` if the numbers have gone wrong.
    pub(super) fn prices(&self) -> Option<Vec<f64>> {
        let mut prices = vec![0.0; self.size];
        for (at, column) in self.basis.iter().enumerate() {
            if matches!(column, Column::Pattern(_)) {
                for (price, part) in prices.iter_mut().zip(self.row(at)) {
                    *price += part;
                }
            }
        }
        prices.iter().all(|price| price.is_finite()).then_some(prices)
    }

    /// Exchanges a column for one of the basis. False if that is not possible.
    pub(super) fn enter(&mut self, column: Column) -> bool {
        let direction = self.through_inverse(&column);
        let mut leaving: Option<(f64, usize)> = None;
        for (at, (step, amount)) in direction.iter().zip(&self.amounts).enumerate() {
            if *step <= PIVOT {
                continue;
            }
            let ratio = amount.max(0.0) / step;
            // On a tie the greater pivot, for the sake of the numbers.
            let better = leaving.is_none_or(|(least, other)| {
                ratio < least - PIVOT || (ratio <= least + PIVOT && *step > direction[other])
            });
            if better {
                leaving = Some((ratio, at));
            }
        }
        let Some((_, at)) = leaving else { return false };
        self.pivot(at, &direction);
        self.basis[at] = column;
        self.exchanges += 1;
        !self.exchanges.is_multiple_of(REFRESH) || self.refresh()
    }

    fn through_inverse(&self, column: &Column) -> Vec<f64> {
        let of_row = |row: usize| match column {
            Column::Pattern(parts) => parts.iter().map(|(of, count)| self.row(row)[*of] * f64::from(*count)).sum(),
            Column::Surplus(of) => -self.row(row)[*of],
        };
        (0..self.size).map(of_row).collect()
    }

    fn pivot(&mut self, at: usize, direction: &[f64]) {
        let size = self.size;
        let pivot = direction[at];
        let mut row: Vec<f64> = self.row(at).to_vec();
        row.iter_mut().for_each(|part| *part /= pivot);
        let amount = self.amounts[at] / pivot;
        for (other, step) in direction.iter().enumerate() {
            if other != at && *step != 0.0 {
                let parts = &mut self.inverse[other * size..(other + 1) * size];
                parts.iter_mut().zip(&row).for_each(|(part, of)| *part -= step * of);
                self.amounts[other] -= step * amount;
            }
        }
        self.inverse[at * size..(at + 1) * size].copy_from_slice(&row);
        self.amounts[at] = amount;
    }

    /// Inverts the basis anew, by elimination with partial pivoting. False if it is singular.
    fn refresh(&mut self) -> bool {
        let size = self.size;
        let width = 2 * size;
        let mut work = vec![0.0; size * width];
        for (at, column) in self.basis.iter().enumerate() {
            match column {
                Column::Pattern(parts) => {
                    for (of, count) in parts {
                        work[of * width + at] = f64::from(*count);
                    }
                }
                Column::Surplus(of) => work[of * width + at] = -1.0,
            }
        }
        (0..size).for_each(|row| work[row * width + size + row] = 1.0);
        for column in 0..size {
            let greatest = (column..size)
                .max_by(|a, b| work[a * width + column].abs().total_cmp(&work[b * width + column].abs()))
                .unwrap_or(column);
            let pivot = work[greatest * width + column];
            if pivot.abs() <= PIVOT {
                return false;
            }
            (0..width).for_each(|part| work.swap(greatest * width + part, column * width + part));
            let row: Vec<f64> = work[column * width..(column + 1) * width].iter().map(|part| part / pivot).collect();
            for (other, parts) in work.chunks_exact_mut(width).enumerate() {
                let step = parts[column];
                if other == column {
                    parts.copy_from_slice(&row);
                } else if step != 0.0 {
                    parts.iter_mut().zip(&row).for_each(|(part, of)| *part -= step * of);
                }
            }
        }
        for (row, parts) in work.chunks_exact(width).enumerate() {
            self.inverse[row * size..(row + 1) * size].copy_from_slice(&parts[size..]);
        }
        let amount = |row: usize| self.row(row).iter().zip(&self.wanted).map(|(part, wanted)| part * wanted).sum();
        self.amounts = (0..size).map(amount).collect();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_halve_the_bins() {
        let mut master = Master::new(&[4.0, 2.0]);
        assert!((master.value() - 6.0).abs() < 1e-5);
        assert!(master.enter(Column::Pattern(vec![(0, 2)])));
        assert!(master.enter(Column::Pattern(vec![(0, 1), (1, 1)])));
        assert!((master.value() - 3.0).abs() < 1e-5, "{}", master.value());
        assert_eq!(master.prices(), Some(vec![0.5, 0.5]));
    }

    #[test]
    fn a_fresh_inverse_is_the_updated_one() {
        let mut master = Master::new(&[4.0, 2.0, 3.0]);
        for pattern in [vec![(0, 1), (1, 1)], vec![(1, 1), (2, 1)], vec![(0, 2)]] {
            assert!(master.enter(Column::Pattern(pattern)));
        }
        assert!(master.enter(Column::Surplus(1)) || master.prices().is_some());
        let (inverse, amounts) = (master.inverse.clone(), master.amounts.clone());
        assert!(master.refresh());
        let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(near(&inverse, &master.inverse) && near(&amounts, &master.amounts));
    }

    #[test]
    fn a_column_that_covers_nothing_cannot_enter() {
        assert!(!Master::new(&[1.0]).enter(Column::Pattern(Vec::new())));
    }
}
