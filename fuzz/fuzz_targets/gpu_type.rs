//! Entry of libFuzzer into `gpu_type`; what is checked stands in `orlop_fuzz::targets`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| orlop_fuzz::targets::gpu_type(data));
