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
use std::sync::Arc;

/// The longest page, also if the caller sets no limit.
const PAGE_MAX: usize = 1000;

impl Core {
    /// One page of the volumes of all configured file systems, by uuid and then by id.
    pub(super) async fn list(&self, request: ListVolumesRequest) -> Result<ListVolumesResponse, CsiError> {
        let limit = page_length(request.max_entries)?;
        let token = match request.starting_token.as_str() {
            "" => None,
            token => Some(ListToken::decode(token)?),
        };
        let mut response = ListVolumesResponse::default();
        // Asking for one more than the page has tells whether there are more.
        let mut last = None;
        for store in self.resolver.all().await? {
            let fs = store.fs();
            let after = match &token {
                Some(token) if fs < token.fs => continue,
                Some(token) if fs == token.fs => Some(token.last.as_str()),
                _ => None,
            };
            let room = limit - response.entries.len();
            for record in store.list_volumes(after, room + 1).await? {
                if response.entries.len() == limit {
                    response.next_token = last.as_ref().map(ListToken::encode).unwrap_or_default();
                    return Ok(response);
                }
                response
                    .entries
                    .push(Entry { volume: Some(wire(&record)), status: Some(VolumeStatus::default()) });
                last = Some(ListToken { fs, last: record.id });
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
        request::VolumeParameters::parse(&request.parameters)?;
        let mut sum = Some(0_u64);
        for store in self.resolver.all().await? {
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

fn page_length(max_entries: i32) -> Result<usize, CsiError> {
    match usize::try_from(max_entries) {
        Ok(0) => Ok(PAGE_MAX),
        Ok(entries) => Ok(entries.min(PAGE_MAX)),
        Err(_) => Err(CsiError::invalid("max_entries", format!("{max_entries} is negative"))),
    }
}
