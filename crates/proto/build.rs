//! Generates the Rust side of `proto/` into `OUT_DIR` with `protoc` from `PATH` (or from the variable `PROTOC`).
//!
//! Messages that carry credentials get no derived `Debug`: `src/redact.rs` prints them without their secrets. The list
//! below and the one there must agree; a message missing on either side does not compile.

use std::process::Command;

const CSI: &str = "../../proto/csi/v1/csi.proto";

/// Every CSI message with a field `secrets`.
const WITH_SECRETS: [&str; 14] = [
    "CreateVolumeRequest",
    "DeleteVolumeRequest",
    "ControllerPublishVolumeRequest",
    "ControllerUnpublishVolumeRequest",
    "ValidateVolumeCapabilitiesRequest",
    "ControllerModifyVolumeRequest",
    "ControllerExpandVolumeRequest",
    "CreateSnapshotRequest",
    "DeleteSnapshotRequest",
    "ListSnapshotsRequest",
    "GetSnapshotRequest",
    "NodeStageVolumeRequest",
    "NodePublishVolumeRequest",
    "NodeExpandVolumeRequest",
];

fn main() {
    println!("cargo::rerun-if-changed={CSI}");
    println!("cargo::rerun-if-env-changed=PROTOC");
    require_protoc();
    let secret = WITH_SECRETS.iter().map(|name| format!("csi.v1.{name}"));
    let built = tonic_prost_build::configure()
        .generate_default_stubs(true)
        .skip_debug(secret)
        .compile_protos(&[CSI], &["../../proto"]);
    if let Err(error) = built {
        panic!("{CSI} could not be compiled: {error}");
    }
}

/// Ends the build with an instruction when there is no protocol buffer compiler.
fn require_protoc() {
    let protoc = std::env::var_os("PROTOC").unwrap_or_else(|| "protoc".into());
    let works = Command::new(&protoc).arg("--version").output().is_ok_and(|output| output.status.success());
    assert!(
        works,
        "{} does not run: install it (Debian: `apt-get install protobuf-compiler libprotobuf-dev`), or name it in the variable PROTOC",
        protoc.display()
    );
}
