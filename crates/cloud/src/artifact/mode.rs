//! What an artifact keeps of the mode of a file or folder: whether it can be run, and whether it is its owner's alone. Owns
//! which modes are alike.

/// The part of a mode that is kept. What else differs, such as by the umask of a producer, does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mode {
    /// Whether anybody may run it.
    pub(super) executable: bool,
    /// Whether nobody but its owner may do anything with it.
    pub(super) private: bool,
}

impl Mode {
    /// That of permission bits.
    pub(super) const fn of(bits: u32) -> Self {
        Self { executable: bits & 0o111 != 0, private: bits & 0o077 == 0 }
    }

    /// The permission bits of a file.
    pub(super) const fn of_file(self) -> u32 {
        match (self.executable, self.private) {
            (false, false) => 0o644,
            (true, false) => 0o755,
            (false, true) => 0o600,
            (true, true) => 0o700,
        }
    }

    /// The permission bits of a folder.
    pub(super) const fn of_folder(self) -> u32 {
        if self.private { 0o700 } else { 0o755 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_keep_what_can_be_run_and_what_is_private() {
        let kept = |bits| (Mode::of(bits).of_file(), Mode::of(bits).of_folder());
        assert_eq!([0o644, 0o664, 0o640, 0o444].map(kept), [(0o644, 0o755); 4]);
        assert_eq!([0o755, 0o775, 0o711, 0o555].map(kept), [(0o755, 0o755); 4]);
        assert_eq!([0o600, 0o400, 0o000].map(kept), [(0o600, 0o700); 3]);
        assert_eq!([0o700, 0o500].map(kept), [(0o700, 0o700); 2]);
    }
}
