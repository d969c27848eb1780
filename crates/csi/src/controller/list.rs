//! Listing volumes and telling capacity.

use super::Core;
use super::volumes::wire;
use crate::error::CsiError;
use crate::request;
use crate::store::VolumeStore;
use crate::token::ListToken;
use carafe_proto::csi::v1::list_volumes_response::{Entry, VolumeStatus};
use carafe_proto::csi::v1::{
    GetCapacityRequest, GetCapacityResponse, ListVolumesRequest, ListVolumesResponse,
};
use carafe_types::record::VolumeState;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

/// The longest page, also if the caller sets no limit.
const PAGE_MAX: usize = 1000;
/// Records that are read at once.
const PAGE: usize = 500;

impl Core {
    /// One page of the volumes of all configured file systems, by uuid and then by id.
    pub(super) async fn list(&self, request: ListVolumesRequest) -> Result<ListVolumesResponse, CsiError> {
        let limit = page_length(request.max_entries)?;
        let token = token(&request.starting_token)?;
        let mut response = ListVolumesResponse::default();
        let mut last: Option<ListToken> = None;
        for store in self.resolver.all().await? {
            let fs = store.fs();
            let Some(mut after) = begin(token.as_ref(), fs) else { continue };
            loop {
                let page = store.list_volumes(after.as_deref(), PAGE).await?;
                let ended = page.len() < PAGE;
                after = page.last().map(|record| record.id.clone());
                for record in page.into_iter().filter(|record| record.state == VolumeState::Ready) {
                    // Only one more than the page has tells that there are more.
                    if response.entries.len() == limit {
                        response.next_token = last.as_ref().map(ListToken::encode).unwrap_or_default();
                        return Ok(response);
                    }
                    let (volume, status) = (Some(wire(&record)), Some(VolumeStatus::default()));
                    response.entries.push(Entry { volume, status });
                    last = Some(ListToken { fs, last: record.id });
                }
                if ended {
                    break;
                }
            }
        }
        Ok(response)
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
pub(super) fn token(text: &str) -> Result<Option<ListToken>, CsiError> {
    if text.is_empty() { Ok(None) } else { ListToken::decode(text).map(Some) }
}

/// Behind which id the listing of the file system `fs` begins; `None`: it was listed before.
pub(super) fn begin(token: Option<&ListToken>, fs: Uuid) -> Option<Option<String>> {
    match token {
        Some(token) if fs < token.fs => None,
        Some(token) if fs == token.fs => Some(Some(token.last.clone())),
        _ => Some(None),
    }
}

pub(super) fn page_length(max_entries: i32) -> Result<usize, CsiError> {
    match usize::try_from(max_entries) {
        Ok(0) => Ok(PAGE_MAX),
        Ok(entries) => Ok(entries.min(PAGE_MAX)),
        Err(_) => Err(CsiError::invalid("max_entries", format!("{max_entries} is negative"))),
    }
}
