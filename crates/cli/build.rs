//! Where the command is linked statically, it is not made to run at any address: 56,000 pointers would be put right at
//! each start, page by page, which takes a fifth of what `sandboxd run` takes.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let features = std::env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    if features.split(',').any(|feature| feature == "crt-static") {
        // They take the place of `-static-pie`, of which rustc thinks first.
        println!("cargo:rustc-link-arg-bins=-no-pie");
        println!("cargo:rustc-link-arg-bins=-static");
    }
}
