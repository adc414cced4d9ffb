//! Entry of libFuzzer into `hourglass_objects`; what is checked stands in `orlop_fuzz::targets`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| orlop_fuzz::targets::hourglass_objects(data));
