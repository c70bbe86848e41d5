//! Laws of loading: what wins, what is told, and that every setting can be set in every way.

use super::catalogue::find;
use super::generate::written;
use super::kind::Given;
use super::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A file of settings in a folder of its own.
pub(super) fn file(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    (folder, path)
}

fn setting(loaded: &Loaded, path: &str) -> Setting {
    loaded.all.iter().find(|setting| setting.key.path == path).unwrap().clone()
}

/// What else has to be set so that any value of a setting can be.
fn company(key: &Key) -> Vec<(&'static str, &'static str)> {
    match key.path {
        "server.host" => vec![("server.allow_remote", "true"), ("server.token", "t")],
        "isolation.network" => vec![("isolation.allow_host_network", "true")],
        "storage.s3_access_key_id" => vec![("storage.s3_secret_access_key", "s")],
        "storage.s3_secret_access_key" => vec![("storage.s3_access_key_id", "i")],
        "pool.min" => vec![("pool.max", "10000")],
        "pool.max" => vec![("pool.min", "0")],
        "executions.retry_base" => vec![("executions.retry_max", "1h")],
        "executions.retry_max" => vec![("executions.retry_base", "1ms")],
        "limits.timeout" => vec![("limits.max_timeout", "7d")],
        "limits.cpu_time" => vec![("limits.max_cpu_time", "3650d")],
        "limits.pids" => vec![("limits.max_pids", "4194304")],
        "limits.inodes" => vec![("limits.max_inodes", "4294967296")],
        "limits.open_files" => vec![("limits.max_open_files", "1048576")],
        "limits.output" => vec![("limits.max_output", "1G")],
        _ => Vec::new(),
    }
}

/// Texts that a setting of this kind can be.
fn texts(key: &'static Key) -> BoxedStrategy<String> {
    // What this host has is the bound of these.
    let near = |least: u64| least..=least + (64 << 20);
    match (key.path, key.kind) {
        ("limits.memory" | "limits.disk", Kind::Size { least, .. }) => {
            near(least).prop_map(|n| n.to_string()).boxed()
        }
        ("limits.cpus", _) => (10u64..=1000).prop_map(|n| format!("{n}m")).boxed(),
        ("server.host", _) => "[a-z][a-z0-9.-]{0,20}".boxed(),
        ("server.allowed_hosts", _) => "[a-z]{1,9}(,[a-z.]{1,9}){0,3}".boxed(),
        ("server.allowed_origins", _) => "https://[a-z]{1,9}(,http://[a-z.]{1,9}:8080){0,3}".boxed(),
        ("documents.other_urls", _) => "https://[a-z]{1,9}(,http://[a-z]{1,9}:8080/[a-z]{1,9}){0,3}".boxed(),
        ("mcp.tools" | "mcp.disabled_tools", _) => "[a-z_]{1,12}(,[a-z_]{1,12}){0,3}".boxed(),
        ("pool.languages", _) => "(python|node|ruby)(, bash)?".boxed(),
        ("pool.rehearsal", _) => r"[ -~]{0,20}"
            .prop_map(|program| serde_json::json!({ "python": program, "bash": "true, \"x\"" }).to_string())
            .boxed(),
        (_, Kind::Flag) => prop_oneof!["true", "false"].boxed(),
        (_, Kind::Whole { least, most }) => (least..=most).prop_map(|n| n.to_string()).boxed(),
        (_, Kind::Decimal { least, most }) => (least..=most).prop_map(|n| n.to_string()).boxed(),
        (_, Kind::Time { least, most, never: true }) => {
            prop_oneof![Just("-1".to_owned()), (least..=most).prop_map(|n| format!("{n}ms")),].boxed()
        }
        (_, Kind::Time { least, most, .. }) => (least..=most).prop_map(|n| format!("{n}ms")).boxed(),
        // Beyond this a float, which sizes are read as, is not exact.
        (_, Kind::Size { least, most }) => (least..=most.min(1 << 52)).prop_map(|n| n.to_string()).boxed(),
        (_, Kind::Cores { least, most }) => (least..=most).prop_map(|n| format!("{n}m")).boxed(),
        (_, Kind::Choice(words)) => proptest::sample::select(words).prop_map(str::to_owned).boxed(),
        (_, Kind::Choices(words)) => {
            proptest::sample::subsequence(words, 0..=words.len()).prop_map(|words| words.join(",")).boxed()
        }
        (_, Kind::Text) => r#"[a-zA-Z0-9.:"'\\#-]{1,20}"#.boxed(),
        (_, Kind::Secret) => r#"[!-~]{1,40}"#.prop_map(|text| format!("s{text}")).boxed(),
        (_, Kind::Path) => r#"/[a-zA-Z0-9 "'\\#_-]{0,20}x"#.boxed(),
        (_, Kind::Objects) => prop_oneof!["/[a-z ]{0,20}x", "s3://[a-z]{1,9}/[a-z]{1,9}"].boxed(),
        (_, Kind::Url) => "https?://[a-z]{1,9}(:[1-9][0-9]{1,3})?(/[a-z]{0,5})?".boxed(),
        (_, Kind::Database) => prop_oneof!["sqlite:///[a-z]{1,9}", "postgres://u:p@[a-z]{1,9}/d"].boxed(),
        (path, Kind::List | Kind::Map) => panic!("{path} wants texts of its own"),
    }
}

fn any_setting() -> impl Strategy<Value = (&'static Key, String)> {
    (0..catalogue().len()).prop_flat_map(|index| {
        let key = &catalogue()[index];
        texts(key).prop_map(move |text| (key, text))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_setting_is_the_same_by_file_variable_and_flag((key, text) in any_setting()) {
        let around = Sources::nowhere().flags(&company(key));
        let value = key.read(&Given::Text(text.clone())).unwrap();
        let by_flag = load(&around.clone().flags(&[(key.path, &text)])).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let found = setting(&by_flag, key.path);
        prop_assert_eq!((&found.value, &found.origin), (&value, &Origin::Flag));

        // Read back what it is written as, in each place.
        let variable = key.variable();
        let by_variable = load(&around.clone().env(&variable, &value.written())).unwrap();
        let found = setting(&by_variable, key.path);
        prop_assert_eq!((&found.value, found.origin), (&value, Origin::Variable(variable)));
        prop_assert_eq!(&by_variable.settings, &by_flag.settings);

        for (name, format) in [("s.yaml", Format::Yaml), ("s.toml", Format::Toml)] {
            let line = written(key, &value, format);
            let page = match format {
                Format::Yaml => format!("\n{}:\n  {}: {line}\n", key.section(), key.name()),
                Format::Toml => format!("\n[{}]\n{} = {line}\n", key.section(), key.name()),
            };
            let (_folder, path) = file(name, &page);
            let by_file = load(&around.clone().file(&path));
            let by_file = by_file.map_err(|e| TestCaseError::fail(format!("{page}: {e}")))?;
            let found = setting(&by_file, key.path);
            prop_assert_eq!((&found.value, found.origin), (&value, Origin::File { path, line: 3 }), "{}", page);
            prop_assert_eq!(&by_file.settings, &by_flag.settings);
        }
    }

    #[test]
    fn later_places_win((key, text) in any_setting(), from in 0usize..8) {
        // Of these there are two or none.
        prop_assume!(from != 0 || !key.path.starts_with("storage.s3_"));
        let value = key.read(&Given::Text(text.clone())).unwrap();
        let mut sources = Sources::nowhere().flags(&company(key));
        let mut expected = Origin::Default;
        let line = written(key, &value, Format::Yaml);
        let (_folder, path) = file("s.yaml", &format!("{}:\n  {}: {line}\n", key.section(), key.name()));
        if from & 1 != 0 {
            sources = sources.file(&path);
            expected = Origin::File { path, line: 2 };
        }
        if from & 2 != 0 {
            sources = sources.env(&key.variable(), &value.written());
            expected = Origin::Variable(key.variable());
        }
        if from & 4 != 0 {
            sources = sources.flags(&[(key.path, &text)]);
            expected = Origin::Flag;
        }
        prop_assert_eq!(setting(&load(&sources).unwrap(), key.path).origin, expected);
    }
}

#[test]
fn every_setting_changes_what_the_server_sees() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for key in catalogue() {
        let seen = |text: String| {
            let flags = [company(key), vec![(key.path, text.as_str())]].concat();
            load(&Sources::nowhere().flags(&flags)).unwrap_or_else(|e| panic!("{}: {e}", key.path)).settings
        };
        let mut text = || texts(key).new_tree(&mut runner).unwrap().current();
        let first = seen(text());
        assert!((0..100).any(|_| seen(text()) != first), "{} changes nothing", key.path);
    }
}

#[test]
fn every_variable_from_before_is_read_in_its_unit() {
    let cases = [
        ("HOST", "localhost", "server.host", "localhost"),
        ("SANDBOXRUNNER_SERVER_ADDRESS", "::1", "server.host", "::1"),
        ("PORT", "9101", "server.port", "9101"),
        ("SANDBOXRUNNER_SERVER_PORT", "3000", "server.port", "3000"),
        ("ALLOWED_HOSTS", "[\"a.example\", \"b.example\"]", "server.allowed_hosts", "a.example, b.example"),
        ("CORS_ORIGINS", "https://a.example", "server.allowed_origins", "https://a.example"),
        ("SANDBOXRUNNER_SERVER_READ_TIMEOUT", "30s", "server.body_timeout", "30s"),
        ("RATE_LIMIT_ENABLED", "false", "tenants.requests_per_minute", "0"),
        ("RATE_LIMIT_PER_MINUTE", "60", "tenants.requests_per_minute", "60"),
        ("MCP_ENABLED", "false", "mcp.enabled", "false"),
        ("SANDBOXRUNNER_TOOLS_ENABLED_TOOLS", "run_code", "mcp.tools", "run_code"),
        ("SANDBOXRUNNER_TOOLS_DISABLED_TOOLS", "exec_command", "mcp.disabled_tools", "exec_command"),
        ("DATABASE_URL", "mysql+aiomysql://u:p@db/x", "storage.url", "mysql://db/x"),
        ("S3_BUCKET", "sandbox-workspace", "storage.objects", "s3://sandbox-workspace"),
        ("S3_ENDPOINT_URL", "http://minio:9000", "storage.s3_endpoint", "http://minio:9000"),
        ("S3_REGION", "us-east-1", "storage.s3_region", "us-east-1"),
        ("S3_ACCESS_KEY_ID", "minio", "storage.s3_access_key_id", "***"),
        ("S3_SECRET_ACCESS_KEY", "minio", "storage.s3_secret_access_key", "***"),
        ("CLEANUP_INTERVAL_SECONDS", "300", "retention.sweep_interval", "5m"),
        ("SANDBOXRUNNER_SANDBOX_CLEANUP_INTERVAL", "10m", "retention.sweep_interval", "10m"),
        ("DEFAULT_TIMEOUT", "300", "limits.timeout", "5m"),
        ("SANDBOX_TIMEOUT_SECONDS", "299", "limits.timeout", "299s"),
        ("EXECUTION_TIMEOUT", "45", "limits.timeout", "45s"),
        ("SANDBOXRUNNER_TOOLS_DEFAULT_TIMEOUT", "30s", "limits.timeout", "30s"),
        ("DEFAULT_MEMORY", "512Mi", "limits.memory", "512M"),
        ("SANDBOXRUNNER_SANDBOX_DEFAULT_RESOURCES_MEMORY_LIMIT", "64M", "limits.memory", "64M"),
        ("SANDBOX_MEMORY_LIMIT", "131072", "limits.memory", "128M"),
        ("DEFAULT_CPU", "1", "limits.cpus", "1"),
        ("SANDBOX_CPU_QUOTA", "0.5", "limits.cpus", "500m"),
        ("SANDBOXRUNNER_SANDBOX_DEFAULT_RESOURCES_CPU_LIMIT", "1.0", "limits.cpus", "1"),
        ("SANDBOX_MAX_USER_PROGRESS", "10", "limits.pids", "10"),
        ("DEFAULT_DISK", "256Mi", "limits.disk", "256M"),
        ("SANDBOXRUNNER_SANDBOX_DEFAULT_RESOURCES_DISK_LIMIT", "128M", "limits.disk", "128M"),
        ("SANDBOXRUNNER_TOOLS_MAX_OUTPUT_SIZE", "1048576", "limits.output", "1M"),
        ("MAX_TIMEOUT", "1800", "limits.max_timeout", "30m"),
        ("SANDBOXD_MAX_TIMEOUT", "20m", "limits.max_timeout", "20m"),
        ("SANDBOXD_MAX_CPU_TIME", "20m", "limits.max_cpu_time", "20m"),
        ("SANDBOXD_MAX_MEMORY", "64M", "limits.max_memory", "64M"),
        ("SANDBOXD_MAX_CPUS", "50%", "limits.max_cpus", "500m"),
        ("SANDBOXD_MAX_PIDS", "64", "limits.max_pids", "64"),
        ("SANDBOXD_MAX_DISK", "64M", "limits.max_disk", "64M"),
        ("SANDBOXD_MAX_INODES", "64", "limits.max_inodes", "64"),
        ("SANDBOXD_MAX_OPEN_FILES", "64", "limits.max_open_files", "64"),
        ("SANDBOXD_MAX_OUTPUT", "1M", "limits.max_output", "1M"),
        ("MAX_RETRY_ATTEMPTS", "4", "executions.retry_attempts", "4"),
        ("RETRY_BACKOFF_BASE", "2", "executions.retry_base", "2s"),
        ("RETRY_BACKOFF_FACTOR", "1.5", "executions.retry_factor", "1.5"),
        ("MAX_RETRY_BACKOFF", "20", "executions.retry_max", "20s"),
        ("SANDBOXRUNNER_SANDBOX_MAX_SANDBOXES", "10", "sessions.max", "10"),
        ("IDLE_THRESHOLD_MINUTES", "30", "sessions.idle_timeout", "30m"),
        ("IDLE_THRESHOLD_MINUTES", "-1", "sessions.idle_timeout", "-1"),
        ("MAX_LIFETIME_HOURS", "6", "sessions.lifetime", "6h"),
        ("MAX_LIFETIME_HOURS", "-1", "sessions.lifetime", "-1"),
        ("SANDBOX_SESSION_TTL", "3600", "sessions.lifetime", "1h"),
        ("WORKSPACE_EXPIRATION_TIME", "86400", "sessions.lifetime", "1d"),
        ("WARM_POOL_ENABLED", "false", "pool.enabled", "false"),
        ("WARM_POOL_MIN_SIZE", "5", "pool.min", "5"),
        ("WARM_POOL_DEFAULT_SIZE", "10", "pool.max", "10"),
        ("SANDBOX_POOL_SIZE", "2", "pool.max", "2"),
        ("WARM_POOL_MAX_IDLE_TIME", "180", "pool.idle_timeout", "3m"),
        ("SANDBOX_MAX_IDLE_TIME", "60", "pool.idle_timeout", "1m"),
        ("SANDBOX_ALLOW_NETWORK", "on", "isolation.network", "host"),
        ("SANDBOXRUNNER_SANDBOX_NETWORK_MODE", "none", "isolation.network", "none"),
        ("EFAST_DOWNLOADER_URL", "http://efast-private:9123", "documents.url", "http://efast-private:9123"),
        ("EFAST_TOKEN", "t", "documents.token", "***"),
        ("DOWNLOADER_TIMEOUT", "300", "documents.timeout", "5m"),
        ("LOG_LEVEL", "WARNING", "log.level", "warn"),
        ("SANDBOXRUNNER_LOGGING_LEVEL", "debug", "log.level", "debug"),
        ("LOG_FORMAT", "json", "log.format", "json"),
        ("SANDBOXRUNNER_LOGGING_FORMAT", "console", "log.format", "text"),
        ("METRICS_ENABLED", "false", "metrics.enabled", "false"),
    ];
    for (name, text, path, shown) in cases {
        let key = find(path).unwrap();
        let sources = Sources::nowhere().flags(&company(key)).env(name, text);
        let loaded = load(&sources).unwrap_or_else(|e| panic!("{name}: {e}"));
        let found = setting(&loaded, path);
        assert_eq!(
            (key.shown(&found.value).as_str(), found.origin),
            (shown, Origin::Variable(name.into())),
            "{name}"
        );
        let is_told =
            loaded.notes.iter().any(|note| note.contains(&format!("`{name}`")) && note.contains(path));
        assert_eq!(is_told, !name.starts_with("SANDBOXD_"), "{name}: {:?}", loaded.notes);
        // Its own name wins.
        let sources = sources.env(&key.variable(), &key.example.replace("file:/", "x"));
        if !key.example.is_empty() {
            let found = setting(&load(&sources).unwrap(), path);
            assert_eq!(found.origin, Origin::Variable(key.variable()), "{name}");
        }
    }
    let mut tested: Vec<&str> = cases.iter().map(|case| case.0).collect();
    let mut all: Vec<&str> = catalogue().iter().flat_map(|key| &key.also).map(|alias| alias.name).collect();
    tested.sort_unstable();
    tested.dedup();
    all.sort_unstable();
    assert_eq!(tested, all);
}

#[test]
fn what_means_nothing_here_is_told_and_isolation_is_not_switched_off() {
    for (name, _) in founding::IGNORED {
        let loaded = load(&Sources::nowhere().env(name, "1")).unwrap();
        assert!(loaded.notes.iter().any(|note| note.contains(name)), "{name}");
    }
    for (text, is_fine) in
        [("false", true), ("0", true), ("", true), ("true", false), ("1", false), ("x", false)]
    {
        assert_eq!(load(&Sources::nowhere().env("DISABLE_BWRAP", text)).is_ok(), is_fine, "{text}");
    }
    let loaded = load(&Sources::nowhere().env("HOST", "x86_64-conda-linux-gnu")).unwrap();
    assert_eq!(loaded.settings.server.host, "127.0.0.1");
    assert!(loaded.notes.iter().any(|note| note.contains("`HOST`")));
}

#[test]
fn a_database_in_parts_is_read_and_its_password_is_not_told() {
    let sources = Sources::nowhere()
        .env("DB_TYPE", "postgres")
        .env("DB_HOST", "db")
        .env("DB_USER", "me")
        .env("DB_PASSWORD", "hunter2")
        .env("DB_DATABASE", "x");
    let loaded = load(&sources).unwrap();
    assert_eq!(loaded.settings.storage.url.to_string(), "postgres://db:5432/x");
    let told = format!("{:?} {:?}", loaded.notes, loaded.settings);
    assert!(!told.contains("hunter2") && loaded.notes.iter().any(|note| note.contains("DB_TYPE")), "{told}");
    let loaded = load(&sources.env("DATABASE_URL", "sqlite:///x.db")).unwrap();
    assert_eq!(loaded.settings.storage.url.to_string(), "sqlite:///x.db");
}
