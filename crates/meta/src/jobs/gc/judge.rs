//! What the slices of a listing are.

use super::{Collector, Verdict, sessions};
use crate::client::Client;
use crate::jobs::Scanner;
use crate::store::Key;
use carafe_types::{FsResult, SessionNo, SessionUuid, SliceId};
use std::collections::{HashMap, HashSet};

/// A slice as far as memory tells.
enum Seen {
    Is(Verdict),
    /// Unmarked, of a dead session: the records that count it decide.
    Ask(SliceId),
}

impl Collector {
    /// What each of these slices is, in their order. As many as one likes; a few thousand at once are quick.
    ///
    /// # Errors
    /// Store errors.
    pub async fn judge(&self, client: &Client, slices: &[(SessionUuid, u64)]) -> FsResult<Vec<Verdict>> {
        let strangers = self.strangers(client, slices).await?;
        let seen: Vec<Seen> = slices.iter().map(|(uuid, n)| self.look(&strangers, uuid, *n)).collect();
        let asked: Vec<SliceId> =
            seen.iter().filter_map(|s| if let Seen::Ask(slice) = s { Some(*slice) } else { None }).collect();
        let keys: Vec<Key> =
            asked.iter().flat_map(|slice| [Key::SliceOwners(*slice), Key::PackLive(*slice)]).collect();
        let records = Scanner(client).records(&keys).await?;
        let counted: HashSet<SliceId> = asked
            .iter()
            .zip(records.chunks(2))
            .filter(|(_, records)| records.iter().any(Option::is_some))
            .map(|(slice, _)| *slice)
            .collect();
        Ok(seen
            .into_iter()
            .map(|seen| match seen {
                Seen::Is(verdict) => verdict,
                Seen::Ask(slice) if counted.contains(&slice) => Verdict::InUse,
                Seen::Ask(_) => self.unreferenced(),
            })
            .collect())
    }

    /// Sessions that were not among the dead, by what the store knows of them now: they live or have died since, or (`None`)
    /// the store has never heard of them, as after a restore. A session registers before it writes its first object, so
    /// one that is asked for after its object was listed is not missed.
    async fn strangers(
        &self,
        client: &Client,
        slices: &[(SessionUuid, u64)],
    ) -> FsResult<HashMap<SessionUuid, Option<SessionNo>>> {
        let unknown: HashSet<SessionUuid> =
            slices.iter().map(|(uuid, _)| *uuid).filter(|uuid| !self.dead.contains_key(uuid)).collect();
        if unknown.is_empty() {
            return Ok(HashMap::new());
        }
        let mut known = sessions(client, true).await?;
        known.extend(sessions(client, false).await?);
        Ok(unknown.into_iter().map(|uuid| (uuid, known.get(&uuid).copied())).collect())
    }

    fn look(&self, strangers: &HashMap<SessionUuid, Option<SessionNo>>, uuid: &SessionUuid, n: u64) -> Seen {
        let (session, dead) = match (self.dead.get(uuid), strangers.get(uuid)) {
            (Some(session), _) => (*session, true),
            (None, Some(Some(session))) => (*session, false),
            // No record can name a slice of a session without a number.
            (None, _) => return Seen::Is(self.unreferenced()),
        };
        let slice = SliceId { session, n };
        let marked = self.first.contains(slice) || self.second.as_ref().is_some_and(|m| m.contains(slice));
        match () {
            () if marked => Seen::Is(Verdict::InUse),
            () if self.queued.contains(slice) => Seen::Is(Verdict::Queued),
            () if !dead => Seen::Is(Verdict::Young),
            () => Seen::Ask(slice),
        }
    }

    fn unreferenced(&self) -> Verdict {
        if self.second.is_some() { Verdict::Garbage } else { Verdict::Suspect }
    }
}
