//! A case as one user, with everything that must hold for every case.

use crate::bwrap;
use crate::case::{Case, Facts, Run};
use crate::drives;
use crate::neighbour::{Heard, Pace};
use crate::pattern::matches;
use crate::request;
use crate::seen::judge;
use crate::stage::{Stage, words};
use crate::watchdog::Watchdog;
use crate::world::{Place, Who};
use serde_json::json;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Rounds of a neighbour's beside a loud case over which its p99 is judged when a first look found it slow: a p99 of
/// the few rounds of one look is its slowest round. Each number is a judgement, and the last one is final.
const ROUNDS: [usize; 3] = [100, 200, 400];
/// Rounds of quiet that a first look is held against.
const QUIET_ROUNDS: usize = 40;
/// How much slower a neighbour may be beside a loud case.
const FACTOR: f64 = 2.0;

/// Most characters of a line about what was wrong.
const LONGEST: usize = 400;

#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    pub(crate) verdict: Verdict,
    /// What was wrong, or why it does not apply.
    pub(crate) words: Vec<String>,
    /// What is worth knowing of a case that passed.
    pub(crate) notes: Vec<String>,
    pub(crate) seconds: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    #[default]
    Fail,
    NotApplicable,
}

impl Cell {
    pub(crate) fn not_applicable(why: impl Into<String>) -> Cell {
        Cell { verdict: Verdict::NotApplicable, words: vec![why.into()], ..Cell::default() }
    }
}

/// What the cells of a user share.
pub(crate) struct Cells<'w> {
    place: Place<'w>,
    /// Whether neighbours are asked how quick they are.
    timed: bool,
    /// What the neighbour tells of quiet times, for first looks.
    quiet: RefCell<Heard>,
    records: RefCell<BTreeSet<String>>,
    /// Packets that were counted before.
    packets: std::cell::Cell<u64>,
    watchdog: Watchdog,
}

impl<'w> Cells<'w> {
    pub(crate) fn new(place: Place<'w>, timed: bool) -> Cells<'w> {
        let packets = place.world.outer.as_ref().map_or(0, |outer| outer.packets()).into();
        let watchdog = Watchdog::new(place.children());
        Cells { place, timed, quiet: RefCell::default(), records: RefCell::default(), packets, watchdog }
    }

    /// A case under `sandboxd`.
    pub(crate) fn native(&self, case: &Case) -> Cell {
        let (runs, reason) = match self.place.who {
            Who::Root => (&case.root, &case.facts.plain_only),
            Who::Plain => (&case.plain, &case.facts.root_only),
        };
        if let Some(why) = reason {
            return Cell::not_applicable(why);
        }
        if case.facts.served {
            return Cell::not_applicable("it is a server that is attacked");
        }
        self.tried(case, runs)
    }

    /// Has a server, for the cells of [`Cells::rest`].
    pub(crate) fn serve(&self) -> Result<(), String> {
        self.place.serve()
    }

    /// Ends it.
    pub(crate) fn close(&self) -> Result<(), String> {
        self.place.close()
    }

    /// The same by REST, and what attacks the server itself.
    pub(crate) fn rest(&self, case: &Case) -> Cell {
        let facts = &case.facts;
        let (runs, reason) = match self.place.who {
            Who::Root => (&case.root, &facts.plain_only),
            Who::Plain => (&case.plain, &facts.root_only),
        };
        if let Some(why) = reason.as_ref().or(facts.command_only.as_ref()).or(facts.cold_only.as_ref()) {
            return Cell::not_applicable(why);
        }
        let (fit, apart): (Vec<&Run>, Vec<&Run>) =
            runs.iter().partition(|run| facts.served || request::refusal(run).is_none());
        let mut why: Vec<String> = apart.iter().filter_map(|run| request::refusal(run)).collect();
        why.dedup();
        if fit.is_empty() {
            return Cell::not_applicable(why.join("; "));
        }
        if let Err(why) = self.place.serve() {
            return Cell { words: vec![format!("there is no server: {why}")], ..Cell::default() };
        }
        let mut cell = self.tried(case, &fit.into_iter().cloned().collect::<Vec<_>>());
        if !apart.is_empty() {
            cell.notes.push(format!("without {} of {} runs: {}", apart.len(), runs.len(), why.join("; ")));
        }
        cell
    }

    fn tried(&self, case: &Case, runs: &[Run]) -> Cell {
        let began = Instant::now();
        let mut cell = Cell::default();
        let (wrong, beside) = self.watched(case, runs);
        cell.words = wrong;
        if self.is_timed(case) && cell.words.is_empty() {
            self.judge_slowness(case, runs, beside, &mut cell);
        }
        if !cell.words.is_empty() {
            self.recover(&mut cell);
        }
        if case.is_control() {
            cell.words = unnoticed(&case.facts, &cell.words);
        }
        cell.verdict = if cell.words.is_empty() { Verdict::Pass } else { Verdict::Fail };
        cell.seconds = began.elapsed().as_secs_f64();
        cell
    }

    /// Whether neighbours are asked how quick they are beside it. That depends on the program, not on who asked for it.
    fn is_timed(&self, case: &Case) -> bool {
        case.facts.loud && self.timed && self.place.served().is_none()
    }

    /// The same by interpreters that are there before their programs, where it has a program for one.
    pub(crate) fn warm(&self, case: &Case) -> Cell {
        let runs = if self.place.who == Who::Root { &case.root } else { &case.plain };
        if let Some(why) = &case.facts.cold_only {
            return Cell::not_applicable(why);
        }
        if !case.facts.served && !runs.iter().any(Run::can_wait) {
            return Cell::not_applicable("no program of it is in a language whose interpreter waits");
        }
        self.place.warm.set(true);
        let cell = self.native(case);
        self.place.warm.set(false);
        cell
    }

    /// Whether a case passes once no layer is missing: only then has it noticed the one that was.
    pub(crate) fn passes_with_all_layers(&self, case: &Case) -> bool {
        let again = || if self.place.served().is_some() { self.rest(case) } else { self.native(case) };
        self.place.with_all_layers(again).verdict == Verdict::Pass
    }

    /// The same programs under plain `bwrap`. What a record would say is not asked for, and neither are neighbours.
    pub(crate) fn bwrap(&self, case: &Case) -> Cell {
        let runs = if self.place.who == Who::Root { &case.root } else { &case.plain };
        if case.facts.served {
            return Cell::not_applicable("it is a server that is attacked");
        }
        let began = Instant::now();
        let (mut wrong, mut apart) = (Vec::new(), Vec::new());
        self.watchdog.watch();
        for run in runs {
            let outcome = catch_unwind(AssertUnwindSafe(|| bwrap::run(&self.place, case, run)));
            match outcome {
                Ok(Ok((seen, leaks))) => wrong.extend(judge(&run.expect, &seen).into_iter().chain(leaks)),
                Ok(Err(why)) => apart.push(why),
                Err(cause) => wrong.push(words(&*cause)),
            }
        }
        wrong.extend(self.watchdog.rest());
        if apart.len() == runs.len() {
            apart.dedup();
            return Cell::not_applicable(apart.join("; "));
        }
        wrong.extend(self.outside(runs, &[], None));
        let verdict = if wrong.is_empty() { Verdict::Pass } else { Verdict::Fail };
        let mut cell =
            Cell { verdict, words: wrong, notes: Vec::new(), seconds: began.elapsed().as_secs_f64() };
        if verdict == Verdict::Fail {
            self.recover(&mut cell);
        }
        cell
    }

    /// Whether the neighbour stayed quick beside a loud case. When the first look says otherwise the case is tried
    /// again and again, taking turns with quiet, until there are enough rounds to tell.
    fn judge_slowness(&self, case: &Case, runs: &[Run], mut beside: Heard, cell: &mut Cell) {
        let neighbour = &self.place.neighbour;
        if self.quiet.borrow().times.is_empty() {
            *self.quiet.borrow_mut() = neighbour.in_quiet(QUIET_ROUNDS);
        }
        let mut slowness = beside.p99_against(&self.quiet.borrow());
        let mut quiet = Heard::default();
        // What a control does to the neighbour is plain at the first look.
        for rounds in ROUNDS.into_iter().filter(|_| !case.is_control()) {
            if slowness.is_none_or(|factor| factor <= FACTOR) {
                break;
            }
            while beside.times.len() < rounds {
                let (wrong, more) = self.watched(case, runs);
                quiet.times.extend(neighbour.in_quiet(more.times.len().max(1)).times);
                beside.times.extend(more.times);
                if !wrong.is_empty() {
                    cell.words = wrong;
                    return;
                }
            }
            slowness = beside.p99_against(&quiet);
        }
        let rounds = beside.times.len();
        let told = slowness.map(|factor| format!("neighbour p99 {factor:.1} × quiet in {rounds} rounds"));
        if slowness.is_some_and(|factor| factor > FACTOR) {
            cell.words.extend(told);
        } else {
            cell.notes.extend(told);
        }
    }

    /// Does it once while the watchdog looks: what was wrong, and what the neighbour told.
    fn watched(&self, case: &Case, runs: &[Run]) -> (Vec<String>, Heard) {
        self.watchdog.watch();
        let (mut wrong, heard) = self.attempt(case, runs);
        wrong.extend(self.watchdog.rest());
        (wrong, heard)
    }

    fn attempt(&self, case: &Case, runs: &[Run]) -> (Vec<String>, Heard) {
        let place = &self.place;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() as i64);
        let mut sandboxes = Vec::new();
        let mut wrong = Vec::new();
        place.neighbour.resume(if self.is_timed(case) { Pace::Often } else { Pace::Seldom });
        for run in runs {
            let named = if run.name.is_empty() { String::new() } else { format!("{}: ", run.name) };
            let (problems, uids) = self.perform(run);
            wrong.extend(problems.into_iter().map(|problem| named.clone() + &problem));
            sandboxes.extend(uids);
            if place.is_weakened() && !wrong.is_empty() {
                break;
            }
        }
        let heard = place.neighbour.pause();
        wrong.extend(
            heard.failures.iter().map(|failure| shortened(&format!("the neighbour failed: {failure}"))),
        );
        // That a missing layer is noticed once is enough; what else it lets happen is only to be forgotten.
        if place.is_weakened() && !wrong.is_empty() {
            self.visits(&[]);
            return (wrong, heard);
        }
        let but = case.facts.next_run_cleans.then_some("cgroup");
        let outside = self.outside(runs, &sandboxes, but);
        let clean = outside.is_empty();
        wrong.extend(outside);
        wrong.extend(self.next_run_works());
        if clean {
            let left = place.left_over(&[], None);
            wrong.extend(left.into_iter().map(|trace| format!("left over after the next run: {trace}")));
        }
        for dir in [place.ordinary.home().to_owned(), place.world.path("tmp")] {
            // The token is where it belongs.
            let mut found = place.world.canaries.search_below(&dir, since);
            found.retain(|words| !words.starts_with(&*dir.join("token").to_string_lossy()));
            wrong.extend(found);
        }
        (wrong, heard)
    }

    /// One run: what was wrong, and uids of its sandboxes.
    fn perform(&self, run: &Run) -> (Vec<String>, Vec<u32>) {
        let stage = Stage::new(&self.place, run);
        let outcome = catch_unwind(AssertUnwindSafe(|| match run.drive.as_deref().and_then(drives::find) {
            Some(drive) => drive(&stage),
            None => stage.judge(&stage.execute()),
        }));
        let mut wrong: Vec<String> = match outcome {
            Ok(Ok(())) => Vec::new(),
            Ok(Err(text)) => text.lines().map(str::to_owned).collect(),
            Err(cause) => vec![words(&*cause)],
        };
        wrong.retain(|line| !line.trim().is_empty());
        wrong.iter_mut().for_each(|line| *line = shortened(line));
        if let Some(served) = self.place.served() {
            stage.show(served.news().as_bytes());
        }
        let (leaks, noticed) = stage.close();
        wrong.extend(leaks.into_iter().chain(noticed.malformed));
        let mut records = self.records.borrow_mut();
        for id in noticed.records {
            if !records.insert(id.clone()) {
                wrong.push(format!("a second record is called {id}"));
            }
        }
        (wrong, noticed.sandboxes)
    }

    /// What holds outside of every sandbox: nobody came, nothing changed, nothing is left.
    fn outside(&self, runs: &[Run], sandboxes: &[u32], but: Option<&str>) -> Vec<String> {
        let world = self.place.world;
        let mut wrong = self.place.left_over(sandboxes, but);
        wrong.iter_mut().for_each(|trace| trace.insert_str(0, "left over: "));
        wrong.extend(self.visits(runs));
        wrong.extend(world.guarded.changed());
        wrong
    }

    /// Who came since the last time, and was not invited by one of these runs.
    fn visits(&self, runs: &[Run]) -> Vec<String> {
        let world = self.place.world;
        let allowed: Vec<&String> = runs.iter().flat_map(|run| &run.expect.hits).collect();
        let hits = world.listeners.take();
        let uninvited = hits.iter().filter(|hit| !allowed.iter().any(|glob| matches(glob, hit)));
        let mut wrong: Vec<String> = uninvited.map(|hit| format!("{hit} was reached")).collect();
        let packets = world.outer.as_ref().map_or(0, |outer| outer.packets());
        let new = packets - self.packets.replace(packets);
        if new > 0 && allowed.is_empty() {
            wrong.push(format!("{new} packets reached the network of the host"));
        }
        wrong
    }

    fn next_run_works(&self) -> Option<String> {
        let nonce = self.records.borrow().len();
        if let Some(served) = self.place.served() {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                let code = format!("print('next', {nonce})");
                let record = served.run(&served.tenants[0], &json!({"language": "python", "code": code}));
                assert_eq!(record["stdout"], format!("next {nonce}\n"), "{record}");
            }));
            return outcome.err().map(|cause| shortened(&format!("the next run failed: {}", words(&*cause))));
        }
        let run = self.place.ordinary.run("python", &format!("print('next', {nonce})"));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            run.json().is("success").exits(0).says(&format!("next {nonce}\n"));
        }));
        outcome.err().map(|cause| shortened(&format!("the next run failed: {}", words(&*cause))))
    }

    /// After a failure: the next case shall not suffer from it.
    fn recover(&self, cell: &mut Cell) {
        self.place.world.guarded.restore();
        self.place.clean_up();
        if self.place.served().is_some()
            && let Err(why) = self.place.serve()
        {
            cell.words.push(why);
        }
        if let Err(why) = self.place.begin_anew() {
            cell.words.push(why);
        }
    }
}

/// What a control did that was not noticed, and what was noticed that it should not have done.
fn unnoticed(facts: &Facts, wrong: &[String]) -> Vec<String> {
    let noticed = |glob: &String| wrong.iter().any(|words| matches(glob, words));
    let meant =
        |words: &String| facts.must_notice.iter().chain(&facts.may_notice).any(|glob| matches(glob, words));
    let missed = facts.must_notice.iter().filter(|glob| !noticed(glob));
    let extra = wrong.iter().filter(|words| !meant(words));
    let missed = missed.map(|glob| format!("nobody noticed `{glob}`"));
    missed.chain(extra.map(|words| format!("not part of the control: {words}"))).collect()
}

/// One line that still fits on a screen.
fn shortened(text: &str) -> String {
    let line = text.replace('\n', " ⏎ ");
    let short: String = line.chars().take(LONGEST).collect();
    if short.len() < line.len() { short + "…" } else { short }
}
