//! How an application wants to use a volume.
//!
//! Carafe volumes are directories of a file system that every node may mount, so each access mode is served; raw block
//! devices are not. A read-only mode and the flag `ro` make the mount read-only; other mount flags are the kernel's
//! per-mount attributes or options of `carafe mount`, all others are refused rather than ignored.

use super::quantity::positive;
use crate::address::MountOptions;
use crate::error::CsiError;
use carafe_proto::csi::v1::VolumeCapability;
use carafe_proto::csi::v1::volume_capability::AccessType;
use carafe_proto::csi::v1::volume_capability::access_mode::Mode;

/// Per-mount attributes, by the names that `mount(8)` uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) read_only: bool,
    pub(crate) nosuid: bool,
    pub(crate) nodev: bool,
    pub(crate) noexec: bool,
    pub(crate) noatime: bool,
}

/// A checked capability.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// How the volume is to be mounted.
    pub(crate) attributes: Attributes,
    /// One target on one node at a time (ReadWriteOncePod).
    pub(crate) single_target: bool,
    /// The group that shall own the volume's root directory (an fsGroup).
    pub(crate) group: Option<u32>,
    /// How the file system is to be mounted.
    pub(crate) options: MountOptions,
}

/// Checks the capabilities of a controller call: at least one, each of them possible.
pub(crate) fn accesses(capabilities: &[VolumeCapability]) -> Result<Vec<Access>, CsiError> {
    if capabilities.is_empty() {
        return Err(CsiError::Missing("volume_capabilities"));
    }
    capabilities.iter().map(|capability| access(Some(capability))).collect()
}

/// Checks the capability of a call.
pub(crate) fn access(capability: Option<&VolumeCapability>) -> Result<Access, CsiError> {
    let capability = capability.ok_or(CsiError::Missing("volume_capability"))?;
    let mut access = Access::default();
    match &capability.access_type {
        None => return Err(CsiError::Missing("volume_capability.access_type")),
        Some(AccessType::Block(_)) => {
            let reason = "raw block volumes are not served: use volumeMode Filesystem";
            return Err(CsiError::invalid("volume_capability", reason));
        }
        Some(AccessType::Mount(mount)) => {
            fs_type(&mount.fs_type)?;
            access.group = mount_group(&mount.volume_mount_group)?;
            (access.attributes, access.options) = flags(&mount.mount_flags)?;
        }
    }
    let mode = capability.access_mode.as_ref().ok_or(CsiError::Missing("volume_capability.access_mode"))?;
    match Mode::try_from(mode.mode).unwrap_or(Mode::Unknown) {
        Mode::Unknown => {
            let reason =
                format!("access mode {} is unknown: use one of ReadWriteOnce, ReadOnlyMany, ...", mode.mode);
            return Err(CsiError::invalid("volume_capability.access_mode", reason));
        }
        Mode::SingleNodeReaderOnly | Mode::MultiNodeReaderOnly => access.attributes.read_only = true,
        Mode::SingleNodeSingleWriter => access.single_target = true,
        Mode::SingleNodeWriter
        | Mode::MultiNodeSingleWriter
        | Mode::MultiNodeMultiWriter
        | Mode::SingleNodeMultiWriter => {}
    }
    Ok(access)
}

fn fs_type(fs_type: &str) -> Result<(), CsiError> {
    match fs_type {
        "" | "carafe" => Ok(()),
        other => Err(CsiError::invalid(
            "fs_type",
            format!("{other:?} is not served: leave it out, or say \"carafe\""),
        )),
    }
}

fn mount_group(group: &str) -> Result<Option<u32>, CsiError> {
    match group {
        "" => Ok(None),
        group => group.parse().ok().filter(|gid| *gid != u32::MAX).map(Some).ok_or_else(|| {
            CsiError::invalid(
                "volume_mount_group",
                format!("{group:?} is not a group number: set fsGroup to one"),
            )
        }),
    }
}

/// Mount flags, each element one flag or several with commas between; every unknown one is named. What `carafe mount` knows
/// is an option of the file system's mount, the rest an attribute of the volume's.
fn flags(flags: &[String]) -> Result<(Attributes, MountOptions), CsiError> {
    let (mut attributes, mut options) = (Attributes::default(), MountOptions::default());
    let mut unknown = Vec::new();
    for flag in flags.iter().flat_map(|flags| flags.split(',')).map(str::trim) {
        let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
        match (name, value) {
            ("" | "rw" | "suid" | "dev" | "exec" | "relatime", "") => {}
            ("ro", "") => attributes.read_only = true,
            ("nosuid", "") => attributes.nosuid = true,
            ("nodev", "") => attributes.nodev = true,
            ("noexec", "") => attributes.noexec = true,
            ("noatime", "") => attributes.noatime = true,
            ("close-sync", "") => options.close_sync = true,
            ("no-cache-disk", "") => options.memory_only = true,
            ("cache-size", size) if positive(size).is_some() => options.cache_size = positive(size),
            ("upload-parallel", n) if n.parse::<u32>().is_ok_and(|n| (1..=1024).contains(&n)) => {
                options.upload_parallel = n.parse().ok();
            }
            _ => unknown.push(format!("{flag:?}")),
        }
    }
    if unknown.is_empty() {
        return Ok((attributes, options));
    }
    let reason = format!(
        "unknown or wrong {}; known are ro, nosuid, nodev, noexec, noatime, close-sync, no-cache-disk, cache-size=BYTES, \
         upload-parallel=N",
        unknown.join(", ")
    );
    Err(CsiError::invalid("mount_flags", reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use carafe_proto::csi::v1::volume_capability::{AccessMode, BlockVolume, MountVolume};

    fn mount(mode: Mode, mount_flags: &[&str]) -> VolumeCapability {
        let mount_flags = mount_flags.iter().map(|flag| (*flag).to_owned()).collect();
        VolumeCapability {
            access_type: Some(AccessType::Mount(MountVolume { mount_flags, ..MountVolume::default() })),
            access_mode: Some(AccessMode { mode: mode.into() }),
        }
    }

    #[test]
    fn a_reader_gets_a_read_only_mount_and_a_single_writer_a_single_target() {
        let reader = access(Some(&mount(Mode::MultiNodeReaderOnly, &[]))).unwrap();
        assert!(reader.attributes.read_only && !reader.single_target);
        let single = access(Some(&mount(Mode::SingleNodeSingleWriter, &[]))).unwrap();
        assert!(!single.attributes.read_only && single.single_target);
        assert_eq!(access(Some(&mount(Mode::MultiNodeMultiWriter, &[]))).unwrap(), Access::default());
    }

    #[test]
    fn known_mount_flags_are_taken_and_all_unknown_ones_are_named() {
        let flags =
            access(Some(&mount(Mode::SingleNodeWriter, &["ro,noexec", "noatime"]))).unwrap().attributes;
        assert!(flags.read_only && flags.noexec && flags.noatime && !flags.nosuid);
        let error =
            access(Some(&mount(Mode::SingleNodeWriter, &["cache-size=much", "x"]))).unwrap_err().to_string();
        assert!(error.contains(r#""cache-size=much", "x""#), "{error}");
    }

    #[test]
    fn options_of_the_mount_and_a_group_are_taken() {
        let mut capability =
            mount(Mode::SingleNodeWriter, &["cache-size=5Gi,close-sync", "upload-parallel=9"]);
        let taken = access(Some(&capability)).unwrap().options;
        assert_eq!(
            (taken.cache_size, taken.close_sync, taken.upload_parallel),
            (Some(5 << 30), true, Some(9))
        );
        let Some(AccessType::Mount(mount)) = &mut capability.access_type else { panic!("a mount") };
        mount.volume_mount_group = "101".into();
        assert_eq!(access(Some(&capability)).unwrap().group, Some(101));
        let Some(AccessType::Mount(mount)) = &mut capability.access_type else { panic!("a mount") };
        mount.volume_mount_group = "staff".into();
        assert!(access(Some(&capability)).unwrap_err().to_string().contains("fsGroup"));
    }

    #[test]
    fn block_mode_unknown_modes_and_missing_parts_are_refused() {
        let mut block = mount(Mode::SingleNodeWriter, &[]);
        block.access_type = Some(AccessType::Block(BlockVolume {}));
        assert!(access(Some(&block)).unwrap_err().to_string().contains("volumeMode Filesystem"));
        assert!(access(Some(&mount(Mode::Unknown, &[]))).is_err());
        assert!(matches!(access(None), Err(CsiError::Missing(_))));
        assert!(matches!(access(Some(&VolumeCapability::default())), Err(CsiError::Missing(_))));
        assert!(matches!(accesses(&[]), Err(CsiError::Missing("volume_capabilities"))));
    }
}
