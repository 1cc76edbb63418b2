# The two commands of the README. Both install what they need and this machine lacks.

SCRIM = target/release/scrim

.PHONY: demo test build install install-systemd clean

## Runs the main job on a temporary volume and cleans up.
demo:
	@scripts/setup.sh demo
	@cargo build --quiet --release --package scrim-cli
	@scripts/demo.sh $(SCRIM)

## Passes every test.
test:
	@scripts/setup.sh test
	cargo build --release --package scrim-cli
	cargo test
	cargo test --package xtask --package scrim-guest

build:
	@scripts/setup.sh build
	cargo build --release --package scrim-cli

PREFIX ?= /usr/local

install: build
	install -D -m 0755 $(SCRIM) $(DESTDIR)$(PREFIX)/bin/scrim
	install -d $(DESTDIR)$(PREFIX)/share/man/man8 $(DESTDIR)$(PREFIX)/share/bash-completion/completions \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(SCRIM) generate man > $(DESTDIR)$(PREFIX)/share/man/man8/scrim.8
	$(SCRIM) generate bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/scrim
	$(SCRIM) generate zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_scrim
	$(SCRIM) generate fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/scrim.fish

UNITS = $(DESTDIR)$(PREFIX)/lib/systemd/system

## Units for volumes that are open while the machine runs: docs/production.md.
install-systemd:
	install -d $(UNITS)
	sed 's,/usr/local/bin/scrim,$(PREFIX)/bin/scrim,' packaging/systemd/scrim@.service > $(UNITS)/scrim@.service
	install -m 0644 packaging/systemd/scrim@.socket $(UNITS)/scrim@.socket

clean:
	cargo clean
