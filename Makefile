# Every target does its own set-up. `make run` shows what this is; `make test` proves it.
HOST := $(shell rustc -vV | sed -n 's/^host: //p')
BIN  := target/release

.PHONY: build run test attacks lint fmt bench config validate-config deny fuzz clean

build: ## leaves sandboxd, sandbox-run, sandbox-executor and libsandbox_zygote.so in target/release/
	scripts/setup build
	RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --release --target $(HOST) -p sandboxd -p sandbox-executor
	mkdir -p $(BIN)
	for name in sandboxd sandbox-executor; do ln -f target/$(HOST)/release/$$name $(BIN)/$$name; done
	for name in sandbox-run mcp-sandboxd; do ln -f $(BIN)/sandboxd $(BIN)/$$name; done
	cargo build --locked --profile library -p sandbox-zygote
	ln -f target/library/libsandbox_zygote.so $(BIN)/libsandbox_zygote.so

run: build ## builds, starts a server and prints a request to try it with
	$(BIN)/sandboxd serve --state-dir target/state

test: ## installs what the tests need and runs everything
	scripts/setup
	scripts/test

attacks: build ## hostile programs, as root and as a plain user; writes docs/reference/attacks.md
	scripts/setup languages tools workloads
	tests/attacks/mutants
	cargo test --locked --workspace --test attacks -- --both-at-once

lint:
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked --workspace --test attacks -- -D warnings

fmt:
	cargo fmt --all

bench: build ## side by side with the bare command and its peers, in one run; writes bench/results.json and .svg
	scripts/setup tools
	$(BIN)/sandboxd bench --save bench/results.json --svg bench/results.svg

config: build ## writes sandboxd.yaml, with every setting commented out
	$(BIN)/sandboxd config generate -o sandboxd.yaml

validate-config: build ## says everything that is wrong with the settings the server would find
	$(BIN)/sandboxd config validate

deny: ## licences, bans and sources of everything we depend on
	cargo deny --locked check bans licenses sources

fuzz: ## a minute of fuzzing for each target
	scripts/fuzz 60

clean:
	cargo clean
