//! Entry of libFuzzer into `hardware_merge`; what is checked stands in `orlop_fuzz::targets`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| orlop_fuzz::targets::hardware_merge(data));
