//! Entry of libFuzzer into `layout`; what is checked stands in `orlop_fuzz::targets`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| orlop_fuzz::targets::layout(data));
