//! Modules that stand in for the core.

/// A module that exports what the core does, in a version of the boundary; `rest`, in the text format, is `step` and what it needs.
pub(crate) fn core_of(version: u32, rest: &str) -> Vec<u8> {
    let version = version.cast_signed();
    let text = format!(
        r#"(module (memory (export "memory") 2)
          (func (export "abi_version") (result i32) (i32.const {version}))
          (func (export "alloc") (param i32) (result i32) (i32.const 4096))
          (func (export "free") (param i32 i32))
          (func (export "create") (param i32 i32) (result i32) (i32.const 1))
          (func (export "destroy") (param i32))
          (func (export "derive") (param i32 i32) (result i32) (i32.const 0))
          (func (export "verify") (param i32 i32) (result i32) (i32.const 0))
          {rest})"#
    );
    wat::parse_str(text).expect("a module")
}
