//! What a container orchestrator sends: requests, list tokens; and the mount table.
#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| carafe_csi::check_any_input(data));
