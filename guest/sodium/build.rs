//! Compiles the pinned libsodium for the machine that builds, or links the archive that `guest/build/sodium.mjs` made
//! for WebAssembly.

use core::error::Error;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The crate that carries libsodium's source; its version is pinned in `source/Cargo.toml`.
const SOURCE_CRATE: &str = "libsodium-sys-stable-1.24.3";
/// libsodium 1.0.22 as its authors published it.
const TARBALL: &str = "LATEST.tar.gz";
const TARBALL_SHA256: &str = "eb9873cc5ccd7b26ef058394264663c99e9c047b423be1ffd484071774198f26";
/// Where the WebAssembly archive lies, relative to the root of the checkout.
const WASM_ARCHIVE: &str = ".cache/sodium/wasm32/libsodium.a";
/// What upstream has no function for.
const OURS: &str = "c/ed25519_verify.c";

fn main() -> Outcome<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=source/Cargo.lock");
    println!("cargo::rerun-if-changed=c");
    if env::var("CARGO_CFG_TARGET_FAMILY")?
        .split(',')
        .any(|family| family == "wasm")
    {
        link_wasm_archive()
    } else {
        let tree = unpack(&source_tarball()?)?;
        compile(&tree)
    }
}

/// Links what `guest/build/sodium.mjs` compiled: a system's C compiler rarely knows WebAssembly.
fn link_wasm_archive() -> Outcome<()> {
    println!("cargo::rerun-if-env-changed=SELFSAME_SODIUM_WASM");
    let archive = match env::var_os("SELFSAME_SODIUM_WASM") {
        Some(path) => PathBuf::from(path),
        None => Path::new(&env::var("CARGO_MANIFEST_DIR")?)
            .join("../..")
            .join(WASM_ARCHIVE),
    };
    println!("cargo::rerun-if-changed={}", archive.display());
    let folder = archive.parent().ok_or("SELFSAME_SODIUM_WASM must name a file")?;
    if !archive.is_file() {
        return Err(format!(
            "libsodium for WebAssembly is not built yet ({} is missing). Run this first, in the root of the \
             checkout: node guest/build/sodium.mjs",
            archive.display()
        )
        .into());
    }
    println!("cargo::rustc-link-search=native={}", folder.display());
    println!("cargo::rustc-link-lib=static=sodium");
    Ok(())
}

/// Reads the tarball out of the pinned crate, which cargo downloads and checks like any other.
fn source_tarball() -> Outcome<Vec<u8>> {
    let cargo = env::var_os("CARGO").ok_or("CARGO is not set: run this through cargo")?;
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--manifest-path",
            "source/Cargo.toml",
        ])
        .args(["--filter-platform", &env::var("HOST")?])
        .output()?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "cargo could not fetch {SOURCE_CRATE}, which holds libsodium's source. With a network, run: cargo \
             fetch --manifest-path guest/sodium/source/Cargo.toml\n{reason}"
        )
        .into());
    }
    let metadata = String::from_utf8(output.stdout)?;
    let manifest = metadata
        .split("\"manifest_path\":\"")
        .filter_map(|rest| rest.split('"').next())
        .map(|path| PathBuf::from(path.replace("\\\\", "\\")))
        .find(|path| path.parent().is_some_and(|folder| folder.ends_with(SOURCE_CRATE)))
        .ok_or("cargo metadata does not name the crate with libsodium's source")?;
    let tarball = fs::read(manifest.with_file_name(TARBALL))?;
    let digest: String = Sha256::digest(&tarball)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    if digest != TARBALL_SHA256 {
        return Err(format!("{TARBALL} has sha256 {digest}, expected {TARBALL_SHA256}: refused").into());
    }
    Ok(tarball)
}

/// Unpacks the tarball under `OUT_DIR` and adds the version header that upstream's configure script would write.
fn unpack(tarball: &[u8]) -> Outcome<PathBuf> {
    let folder = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?).join("source");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    tar::Archive::new(flate2::read::GzDecoder::new(tarball)).unpack(&folder)?;
    let tree = folder.join("libsodium-stable");
    fs::copy(
        tree.join("builds/msvc/version.h"),
        tree.join("src/libsodium/include/sodium/version.h"),
    )?;
    Ok(tree)
}

/// Compiles everything but the operating system's random sources, the way upstream's own scripts do.
fn compile(tree: &Path) -> Outcome<()> {
    let arch = env::var("CARGO_CFG_TARGET_ARCH")?;
    let os = env::var("CARGO_CFG_TARGET_OS")?;
    let msvc = env::var("CARGO_CFG_TARGET_ENV")? == "msvc";
    let sources = tree.join("src/libsodium");
    let mut build = cc::Build::new();
    build
        .include(sources.join("include/sodium"))
        // This library is slow to the point of being useless when it is not optimised.
        .opt_level(3)
        .debug(false)
        .warnings(false)
        .define("SODIUM_STATIC", "1");
    for flag in [
        "-fvisibility=hidden",
        "-fno-strict-aliasing",
        "-fno-strict-overflow",
        "-fwrapv",
    ] {
        build.flag_if_supported(flag);
    }
    for name in defines(&arch, &os, msvc) {
        build.define(name, "1");
    }
    // No default random source: `ffi::prepare` installs one that aborts.
    build
        .define("RANDOMBYTES_CUSTOM_IMPLEMENTATION", "1")
        .define("RANDOMBYTES_DEFAULT_IMPLEMENTATION", "NULL");
    if msvc {
        build.define("inline", "__inline");
    } else {
        build.define("TLS", "_Thread_local");
        let hide = if os == "macos" {
            ".private_extern"
        } else {
            ".hidden"
        };
        build.define("ASM_HIDE_SYMBOL", hide);
    }
    let mut files = Vec::new();
    collect(&sources, &mut files)?;
    files.retain(|path| {
        let random = path
            .components()
            .any(|part| part.as_os_str() == "sysrandom" || part.as_os_str() == "internal");
        let assembly = path.extension().is_some_and(|extension| extension == "S");
        !random && (!assembly || (arch == "x86_64" && os != "windows"))
    });
    files.sort();
    build.files(files).file(OURS);
    build.try_compile("sodium")?;
    Ok(())
}

/// What upstream's configure script finds out by trying, for the targets that Rust supports well.
fn defines(arch: &str, os: &str, msvc: bool) -> Vec<&'static str> {
    let mut names = vec![
        "CONFIGURED",
        "DEV_MODE",
        "NATIVE_LITTLE_ENDIAN",
        "HAVE_STDINT_H",
        "HAVE_INTTYPES_H",
    ];
    if !msvc {
        names.extend([
            "_GNU_SOURCE",
            "HAVE_ATOMIC_OPS",
            "HAVE_C11_MEMORY_FENCES",
            "HAVE_GCC_MEMORY_FENCES",
        ]);
        names.extend(["HAVE_INLINE_ASM", "HAVE_TI_MODE"]);
    }
    if os != "windows" {
        names.extend([
            "HAVE_PTHREAD",
            "HAVE_WEAK_SYMBOLS",
            "HAVE_RAISE",
            "HAVE_SYS_PARAM_H",
        ]);
    }
    if os == "linux" {
        names.extend(["HAVE_SYS_AUXV_H", "HAVE_GETAUXVAL"]);
    }
    if arch == "x86_64" {
        names.extend([
            "HAVE_CPUID",
            "HAVE_MMINTRIN_H",
            "HAVE_EMMINTRIN_H",
            "HAVE_PMMINTRIN_H",
            "HAVE_TMMINTRIN_H",
        ]);
        names.extend([
            "HAVE_SMMINTRIN_H",
            "HAVE_AVXINTRIN_H",
            "HAVE_AVX2INTRIN_H",
            "HAVE_AVX512FINTRIN_H",
        ]);
        names.extend(["HAVE_WMMINTRIN_H", "HAVE_RDRAND"]);
        if os != "windows" {
            names.extend(["HAVE_AMD64_ASM", "HAVE_AVX_ASM", "HAVE_XGETBV_ASM", "HAVE_CET_H"]);
        }
    }
    names
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Outcome<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "c" || extension == "S")
        {
            files.push(path);
        }
    }
    Ok(())
}
