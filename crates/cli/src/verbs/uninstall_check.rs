//! `carafe uninstall-check`: fails while pods use volumes of the driver. The chart asks before it is uninstalled.

use crate::failure::{Exit, Failure, Outcome};
use crate::kubernetes;
use clap::Args;

/// Fail while pods use volumes of the driver
#[derive(Args, Debug)]
pub(crate) struct UninstallCheckArgs {
    /// The driver's name, as in the StorageClass
    #[arg(long, value_name = "NAME", default_value = carafe_csi::DRIVER_NAME)]
    driver_name: String,
}

pub(crate) async fn run(args: &UninstallCheckArgs) -> Outcome {
    let users = kubernetes::pods_with_volumes(&args.driver_name)
        .await
        .map_err(|reason| Failure::new(Exit::Unreachable, reason))?;
    if users.is_empty() {
        return Ok(());
    }
    let what = format!("{} pods use volumes of {}: {}", users.len(), args.driver_name, users.join(", "));
    Err(Failure::new(Exit::Refused, what)
        .next("delete these pods first: without the driver nothing can unmount their volumes"))
}
