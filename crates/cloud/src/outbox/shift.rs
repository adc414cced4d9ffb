//! Freeing the oldest segment of an outbox log: what is still needed of it is written again behind all others. Owns that nothing
//! is lost on the way; when it is worth it is decided where entries are written.

use std::io;

use super::journal::{Entry, Spot};
use super::{Item, OutboxLog};

impl OutboxLog {
    /// Copies what is needed of the oldest control segment behind the rest when there are many, and removes it.
    pub(super) fn shift(&mut self) -> io::Result<()> {
        let Some(oldest) = self.control.oldest_beyond(self.options.reserve) else { return Ok(()) };
        let entries: Vec<Entry> = self.needed_in(oldest);
        for entry in entries {
            let spot = self.control.append(&entry, true)?;
            self.moved(&entry, spot);
        }
        self.control.write()?;
        self.control.clear()
    }

    fn needed_in(&self, segment: u64) -> Vec<Entry> {
        let known = self.known.iter().flat_map(|(id, known)| {
            let accepted = known.accepted.filter(|(_, spot)| spot.segment == segment);
            let started = known.started.as_ref().filter(|(_, spot, _)| spot.segment == segment);
            let accepted = accepted.map(|(no, _)| Entry::Accepted(no, *id, known.body.to_vec()));
            accepted.into_iter().chain(started.map(|(no, _, started)| Entry::Started(*no, *id, started.clone())))
        });
        let pending = self.pending.iter().filter(|(_, pending)| pending.spot.segment == segment);
        let pending = pending.filter_map(|(no, pending)| match &pending.item {
            Item::Accepted | Item::Started(_) => None,
            Item::Rejected(reason) => Some(Entry::Rejected(*no, pending.id, reason.clone())),
            Item::Revoked => Some(Entry::Revoked(*no, pending.id)),
            Item::Ended(end) => Some(Entry::Ended(*no, pending.id, Box::new((**end).clone()))),
        });
        known.chain(pending).collect()
    }

    fn moved(&mut self, entry: &Entry, to: Spot) {
        let (no, id) = match entry {
            Entry::Accepted(no, id, _) | Entry::Started(no, id, _) => (no, id),
            Entry::Rejected(no, id, _) | Entry::Revoked(no, id) | Entry::Ended(no, id, _) => (no, id),
            Entry::Log(..) | Entry::Gap(..) | Entry::Released(_) => return,
        };
        let mut before = self.pending.get_mut(no).map(|pending| std::mem::replace(&mut pending.spot, to));
        if let Some(known) = self.known.get_mut(id) {
            match entry {
                Entry::Accepted(..) => {
                    before = before.or(known.accepted.map(|(_, spot)| spot));
                    known.accepted = Some((*no, to));
                }
                Entry::Started(..) => {
                    if let Some((_, spot, _)) = &mut known.started {
                        before = before.or(Some(*spot));
                        *spot = to;
                    }
                }
                _ => {}
            }
        }
        if let Some(before) = before {
            self.control.release(before);
        }
    }
}
