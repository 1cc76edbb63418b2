# The two commands of the README. Both install what they need and this machine lacks.

# The build for trying things out, which tests use too, and the one that users install.
QUICK = target/debug/scrim
SCRIM = target/release/scrim

.PHONY: demo test build install install-files install-systemd packages manual clean

## Runs the main job on a temporary volume and cleans up.
demo:
	@scripts/setup.sh demo
	cargo build --locked --package scrim-cli
	@scripts/demo.sh $(QUICK)

# Tests in other kernels, and some of minutes, are stages of their own: docs/nightly.md.
LONG = 6.1:: 7.3:: kernel_tls_suites kernel_engine_tune

## Passes every test, in one of the kernels.
test:
	@scripts/setup.sh test
	cargo test --locked --no-fail-fast --workspace --exclude scrim-rivals -- $(LONG:%=--skip %)

build:
	@scripts/setup.sh build
	cargo build --locked --release --package scrim-cli

PREFIX ?= /usr/local

install: build install-files

# What has been built.
install-files:
	install -D -m 0755 $(SCRIM) $(DESTDIR)$(PREFIX)/bin/scrim
	install -d $(DESTDIR)$(PREFIX)/share/man/man8 $(DESTDIR)$(PREFIX)/share/bash-completion/completions \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(SCRIM) generate man $(DESTDIR)$(PREFIX)/share/man/man8
	$(SCRIM) generate bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/scrim
	$(SCRIM) generate zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_scrim
	$(SCRIM) generate fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/scrim.fish

UNITS = $(DESTDIR)$(PREFIX)/lib/systemd/system
USER_UNITS = $(DESTDIR)$(PREFIX)/lib/systemd/user
# mount(8) looks for its helpers here only.
HELPERS = $(DESTDIR)/sbin

## Units for volumes that are open or mounted while the machine runs, and for files over HTTPS, and the helper of
## mount(8): docs/production.md.
install-systemd:
	install -d $(UNITS)
	sed 's,/usr/local/bin/scrim,$(PREFIX)/bin/scrim,' packaging/systemd/scrim@.service > $(UNITS)/scrim@.service
	sed 's,/usr/local/bin/scrim,$(PREFIX)/bin/scrim,' packaging/systemd/scrim-serve.service > $(UNITS)/scrim-serve.service
	install -m 0644 packaging/systemd/scrim@.socket $(UNITS)/scrim@.socket
	install -D -m 0644 packaging/systemd/scrim.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/scrim.conf
	install -d $(USER_UNITS) $(HELPERS)
	sed 's,ExecStart=scrim,ExecStart=$(PREFIX)/bin/scrim,' 'packaging/systemd/scrim-mount@.service' \
		> '$(USER_UNITS)/scrim-mount@.service'
	ln -sf $(PREFIX)/bin/scrim $(HELPERS)/mount.scrim

## Packages for Debian, and an archive for every x86-64 Linux with glibc 2.31 or newer, in target/packages:
## docs/packages.md.
packages:
	@scripts/setup.sh build
	@scripts/packages.sh target/packages

## The manual as one site that can be searched, in target/manual/site.
manual:
	@scripts/setup.sh build
	@scripts/manual.sh target/manual

clean:
	cargo clean
