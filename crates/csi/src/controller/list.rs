//! Listing volumes and telling capacity.

use super::Core;
use super::volumes::wire;
use crate::error::CsiError;
use crate::request;
use crate::store::VolumeStore;
use crate::token::ListToken;
use async_trait::async_trait;
use carafe_proto::csi::v1::list_volumes_response::{Entry, VolumeStatus};
use carafe_proto::csi::v1::{
    GetCapacityRequest, GetCapacityResponse, ListVolumesRequest, ListVolumesResponse,
};
use carafe_types::record::{VolumeRecord, VolumeState};
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

/// The longest page, also if the caller sets no limit.
const PAGE_MAX: usize = 1000;
/// Records that are read at once.
pub(super) const PAGE: usize = 500;

/// What [`Core::page`] makes a page of.
#[async_trait]
pub(super) trait Listing: Sync {
    /// What the page has for each.
    type Entry: Send;

    /// The next [`PAGE`] behind an id, fewer at the end: each with its id, and `None` if it is not to be told.
    async fn read(
        &self,
        store: &dyn VolumeStore,
        after: Option<&str>,
    ) -> Result<Vec<(String, Option<Self::Entry>)>, CsiError>;
}

struct Volumes;

#[async_trait]
impl Listing for Volumes {
    type Entry = Entry;

    async fn read(
        &self,
        store: &dyn VolumeStore,
        after: Option<&str>,
    ) -> Result<Vec<(String, Option<Entry>)>, CsiError> {
        let entry = |record: VolumeRecord| {
            let volume = (record.state == VolumeState::Ready).then(|| wire(&record));
            let status = Some(VolumeStatus::default());
            (record.id, volume.map(|volume| Entry { volume: Some(volume), status }))
        };
        Ok(store.list_volumes(after, PAGE).await?.into_iter().map(entry).collect())
    }
}

impl Core {
    /// One page of the volumes of all configured file systems, by uuid and then by id.
    pub(super) async fn list(&self, request: ListVolumesRequest) -> Result<ListVolumesResponse, CsiError> {
        let (entries, next_token) = self.page(request.max_entries, &request.starting_token, Volumes).await?;
        Ok(ListVolumesResponse { entries, next_token })
    }

    /// One page of a listing over all configured file systems, by uuid and then by id, and the token of the next.
    pub(super) async fn page<L: Listing>(
        &self,
        max_entries: i32,
        starting_token: &str,
        listing: L,
    ) -> Result<(Vec<L::Entry>, String), CsiError> {
        let limit = page_length(max_entries)?;
        let token = token(starting_token)?;
        let mut entries = Vec::new();
        let mut last: Option<ListToken> = None;
        for store in self.resolver.all().await? {
            let fs = store.fs();
            let Some(mut after) = begin(token.as_ref(), fs) else { continue };
            loop {
                let records = listing.read(store.as_ref(), after.as_deref()).await?;
                let ended = records.len() < PAGE;
                after = records.last().map(|(id, _)| id.clone());
                for (id, entry) in records.into_iter().filter_map(|(id, entry)| Some((id, entry?))) {
                    // Only one more than the page has tells that there are more.
                    if entries.len() == limit {
                        return Ok((entries, last.as_ref().map(ListToken::encode).unwrap_or_default()));
                    }
                    entries.push(entry);
                    last = Some(ListToken { fs, last: id });
                }
                if ended {
                    break;
                }
            }
        }
        Ok((entries, String::new()))
    }

    /// What new volumes can still take. Without a parameter that names a file system this is the sum of all.
    pub(super) async fn capacity(
        &self,
        request: GetCapacityRequest,
    ) -> Result<GetCapacityResponse, CsiError> {
        let unserved = |capability| request::access(Some(capability)).is_err();
        if request.volume_capabilities.iter().any(unserved) {
            return Ok(GetCapacityResponse::default());
        }
        let parameters = request::VolumeParameters::parse(&request.parameters)?;
        let stores = match parameters.file_system.as_deref() {
            Some(wanted) => vec![self.resolver.for_new("capacity", Some(wanted), &HashMap::new()).await?],
            None => self.resolver.all().await?,
        };
        let mut sum = Some(0_u64);
        for store in stores {
            sum = add(sum, &store).await?;
        }
        let available_capacity = sum.and_then(|sum| i64::try_from(sum).ok()).unwrap_or(i64::MAX);
        Ok(GetCapacityResponse { available_capacity, ..GetCapacityResponse::default() })
    }
}

/// `sum` and what is left in `store`; `None` is no limit.
async fn add(sum: Option<u64>, store: &Arc<dyn VolumeStore>) -> Result<Option<u64>, CsiError> {
    let available = store.available_bytes().await?;
    Ok(sum.zip(available).and_then(|(sum, available)| sum.checked_add(available)))
}

/// A page's token; `None` is the beginning.
fn token(text: &str) -> Result<Option<ListToken>, CsiError> {
    if text.is_empty() { Ok(None) } else { ListToken::decode(text).map(Some) }
}

/// Behind which id the listing of the file system `fs` begins; `None`: it was listed before.
fn begin(token: Option<&ListToken>, fs: Uuid) -> Option<Option<String>> {
    match token {
        Some(token) if fs < token.fs => None,
        Some(token) if fs == token.fs => Some(Some(token.last.clone())),
        _ => Some(None),
    }
}

fn page_length(max_entries: i32) -> Result<usize, CsiError> {
    match usize::try_from(max_entries) {
        Ok(0) => Ok(PAGE_MAX),
        Ok(entries) => Ok(entries.min(PAGE_MAX)),
        Err(_) => Err(CsiError::invalid("max_entries", format!("{max_entries} is negative"))),
    }
}
