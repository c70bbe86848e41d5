CREATE TABLE counters (
    name {id} NOT NULL PRIMARY KEY,
    value BIGINT NOT NULL
){table};

INSERT INTO counters (name, value) VALUES ('events', 0);

CREATE TABLE templates (
    id {id} NOT NULL PRIMARY KEY,
    name {name} NOT NULL,
    spec {text} NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
){table};

CREATE UNIQUE INDEX templates_by_name ON templates (name);

CREATE TABLE sessions (
    owner {id} NOT NULL,
    id {id} NOT NULL,
    template {id} NOT NULL,
    agent_id {name},
    mode {id} NOT NULL,
    status {id} NOT NULL,
    spec {text} NOT NULL,
    node {id},
    sandbox_id {name},
    workspace {name},
    idle_ms BIGINT NOT NULL,
    lifetime_ms BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    last_activity_at BIGINT NOT NULL,
    due_at BIGINT NOT NULL,
    ended_at BIGINT,
    transitions BIGINT NOT NULL,
    PRIMARY KEY (owner, id)
){table};

CREATE INDEX sessions_by_time ON sessions (owner, created_at, id);
CREATE INDEX sessions_by_status ON sessions (owner, status, created_at, id);
CREATE INDEX sessions_due ON sessions (status, due_at, owner, id);
CREATE INDEX sessions_by_agent ON sessions (owner, agent_id, status, created_at);
CREATE INDEX sessions_by_template ON sessions (template, status);

CREATE TABLE session_states (
    owner {id} NOT NULL,
    session_id {id} NOT NULL,
    number BIGINT NOT NULL,
    from_status {id},
    to_status {id} NOT NULL,
    at BIGINT NOT NULL,
    reason {text},
    PRIMARY KEY (owner, session_id, number)
){table};

CREATE TABLE unfinished_executions (
    id {id} NOT NULL PRIMARY KEY,
    owner {id} NOT NULL,
    session_id {id},
    node {id},
    language {id} NOT NULL,
    status {id} NOT NULL,
    attempts BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    request {text} NOT NULL
){table};

CREATE INDEX unfinished_by_owner ON unfinished_executions (owner, id);
CREATE INDEX unfinished_by_session ON unfinished_executions (owner, session_id, id);

CREATE TABLE executions (
    id {id} NOT NULL PRIMARY KEY,
    owner {id} NOT NULL,
    session_id {id},
    language {id} NOT NULL,
    status {id} NOT NULL,
    created_at BIGINT NOT NULL,
    finished_at BIGINT NOT NULL,
    request {text} NOT NULL,
    record {text} NOT NULL,
    objects {text}
){table};

CREATE INDEX executions_by_owner ON executions (owner, id);
CREATE INDEX executions_by_session ON executions (owner, session_id, id){in_session};

CREATE TABLE claims (
    id {id} NOT NULL PRIMARY KEY,
    token {id} NOT NULL,
    owner {id} NOT NULL,
    request_hash {id} NOT NULL,
    made {id} NOT NULL,
    created_at BIGINT NOT NULL
){table};

CREATE INDEX claims_by_time ON claims (created_at);

CREATE TABLE api_keys (
    id {id} NOT NULL PRIMARY KEY,
    tenant {id} NOT NULL,
    name {name} NOT NULL,
    secret_sha256 {id} NOT NULL,
    scopes {text} NOT NULL,
    limits {text} NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT,
    last_used_at BIGINT
){table};

CREATE INDEX api_keys_by_tenant ON api_keys (tenant, id);

CREATE TABLE events (
    sequence BIGINT NOT NULL PRIMARY KEY,
    owner {id} NOT NULL,
    kind {id} NOT NULL,
    subject {id} NOT NULL,
    at BIGINT NOT NULL,
    body {text} NOT NULL
){table};

CREATE INDEX events_by_owner ON events (owner, sequence);

CREATE TABLE webhooks (
    id {id} NOT NULL PRIMARY KEY,
    owner {id} NOT NULL,
    url {text} NOT NULL,
    kinds {text} NOT NULL,
    secret {text} NOT NULL,
    active BIGINT NOT NULL,
    delivered BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    created_at BIGINT NOT NULL
){table};

CREATE INDEX webhooks_by_owner ON webhooks (owner, id);

CREATE TABLE nodes (
    id {id} NOT NULL PRIMARY KEY,
    status {id} NOT NULL,
    spec {text} NOT NULL,
    load_report {text} NOT NULL,
    heartbeat_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL
){table};
