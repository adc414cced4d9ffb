//! Entry of libFuzzer into `deployment_journal`; what is checked stands in `orlop_fuzz::targets`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| orlop_fuzz::targets::deployment_journal(data));
