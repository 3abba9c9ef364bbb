use std::collections::BTreeMap;
use std::io::{BufRead, Write, stdin, stdout};

/// What a task comes to; an error is one line for the person who runs the benchmark
pub type Outcome<T> = Result<T, String>;

/// Work that can be repeated: does it as many times as it is told, and says what there is to say
pub type Task = Box<dyn FnMut(u64) -> Outcome<String>>;

/// A task that repeats something.
pub fn repeat(mut work: impl FnMut() -> Outcome<()> + 'static) -> Task {
    Box::new(move |count| (0..count).try_for_each(|_| work()).map(|()| String::new()))
}

/// Serves a benchmark until its standard input ends.
///
/// ```text
/// request: TASK COUNT          answer: "ok" or "ok VALUE" when done, or "error MESSAGE"
/// ```
///
/// `make` prepares the task of a name; it is called once for each name, and what it costs is in the first answer.
/// The one who asks measures.
///
/// # Errors
/// When standard input or output fails.
pub fn serve(make: impl Fn(&str) -> Outcome<Task>) -> std::io::Result<()> {
    let mut tasks = BTreeMap::new();
    for line in stdin().lock().lines() {
        let answer = match answer(&line?, &make, &mut tasks) {
            Ok(said) => format!("ok {said}").trim_end().to_owned(),
            Err(reason) => format!("error {}", reason.replace('\n', " ")),
        };
        let mut out = stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn answer(
    line: &str,
    make: &impl Fn(&str) -> Outcome<Task>,
    tasks: &mut BTreeMap<String, Task>,
) -> Outcome<String> {
    let (name, count) = line.split_once(' ').ok_or("expected: TASK COUNT")?;
    let count = count.parse().map_err(|_| format!("{count} is no count"))?;
    if !tasks.contains_key(name) {
        tasks.insert(name.to_owned(), make(name)?);
    }
    let task = tasks.get_mut(name).ok_or("the task was just inserted")?;
    task(count)
}
