//! Compiles the core of the kernel's controllers (`bpf/core`) for user space.

fn main() {
    let (core, user, records) = ("../../bpf/core", "../../bpf/user", "../cc");
    cc::Build::new()
        .files([
            format!("{user}/fixed.c"),
            format!("{user}/logarithm.c"),
            format!("{user}/monitor.c"),
            format!("{user}/options.c"),
            format!("{user}/give_up.c"),
            format!("{user}/twins.c"),
        ])
        .include(core)
        .include(user)
        .include(records)
        .std("c11")
        .warnings_into_errors(cfg!(debug_assertions)) // not in a release, which a user may compile with another compiler
        .extra_warnings(true)
        .compile("bentpipe_twins");
    for folder in [core, user, "../cc/hook_trace.h"] {
        println!("cargo:rerun-if-changed={folder}");
    }
}
