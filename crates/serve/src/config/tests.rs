use super::*;

#[test]
fn a_site_without_a_folder_does_not_serve_the_configurations_own() {
    for sites in ["[[site]]\n", "[[site]]\nroot = \"\"\n"] {
        let error = Config::parse(sites, Path::new("/etc/scrim")).unwrap_err();
        assert!(
            error.to_string().starts_with("[[site]] 1: root: "),
            "{error}"
        );
    }
}

#[test]
fn a_limit_that_lets_nobody_in_is_refused() {
    for limit in [
        "connections = 0",
        "idle-seconds = 0",
        "fields = 129",
        "fields = 0",
    ] {
        let text = format!("[limits]\n{limit}\n");
        let config = Config::parse(&text, Path::new("/")).unwrap();
        assert!(config.limits().is_err(), "{limit}");
    }
    assert!(Config::default().limits().is_ok());
}

#[test]
fn a_site_is_named_by_its_number_and_its_first_host() {
    let text = "[[site]]\nroot = 'a'\n[[site]]\nnames = ['b.example', 'c']\n";
    let error = Config::parse(text, Path::new("/")).unwrap_err().to_string();
    assert!(
        error.starts_with("[[site]] 2 (b.example): root: "),
        "{error}"
    );
}

#[test]
fn a_file_that_is_compressed_fits_into_what_is_kept() {
    let of = |limits: &str, site: &str| {
        let text = format!("[limits]\n{limits}\n[[site]]\nroot = 'a'\n{site}\n");
        let config = Config::parse(&text, Path::new("/")).unwrap();
        config.limits().map_err(|error| error.to_string())
    };
    let compress = "compress = ['gzip']\ncompress-max-bytes = 16773120";
    assert!(of("", compress).is_ok());
    let error = of("", &compress.replace("20", "21")).unwrap_err();
    assert!(
        error.contains("compress-max-bytes: \"16773121\" is not at most 16773120"),
        "{error}"
    );
    assert!(
        error.contains("limits.compressed-bytes (33554432)"),
        "{error}"
    );
    assert!(of("compressed-bytes = 1000", compress).is_err());
    // Neither the default nor a site that compresses nothing.
    assert!(of("compressed-bytes = 1000", "compress = ['gzip']").is_ok());
    assert!(of("", "compress-max-bytes = 100000000").is_ok());
}

#[test]
fn a_list_of_addresses_has_prefixes_each_in_one_list() {
    let of = |site: &str| Config::parse(&format!("[[site]]\nroot = 'a'\n{site}"), Path::new("/"));
    let error = of("allow = ['10.0.0.1/8']\n").unwrap_err().to_string();
    assert!(
        error.contains("line 3") && error.contains("10.0.0.0/8"),
        "{error}"
    );
    let both = of("allow = ['10.0.0.0/8']\ndeny = ['10.0.0.0/8']\n").unwrap();
    let error = both.sites[0].settings().unwrap_err().to_string();
    assert!(
        error.starts_with("deny: ") && error.contains("10.0.0.0/8"),
        "{error}"
    );
}

#[test]
fn users_whose_passwords_others_could_read_are_refused() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("www")).unwrap();
    for file in ["users.txt", "www/users.txt"] {
        std::fs::write(place.path().join(file), "").unwrap();
    }
    let of = |plain: &str, users: &str| {
        let site = format!("[[site]]\nroot = 'www'\nusers = '{users}'\n");
        let text = format!("plain-http = ['{plain}']\n{site}");
        Config::parse(&text, place.path()).map_err(|error| error.to_string())
    };
    let config = of("127.0.0.1:80", "users.txt").unwrap();
    assert_eq!(config.sites[0].users, Some(place.path().join("users.txt")));
    let error = of("0.0.0.0:80", "users.txt").unwrap_err();
    assert!(
        error.starts_with("plain-http: ") && error.contains("redirect-http"),
        "{error}"
    );
    let error = of("127.0.0.1:80", "www/users.txt").unwrap_err();
    assert!(error.starts_with("[[site]] 1: users: "), "{error}");
    // The last user may be removed.
    assert!(config.sites[0].settings().is_ok());
}

#[test]
fn limits_on_each_client_have_sense() {
    let of = |limits: &str| {
        let text = format!("[[site]]\nroot = 'a'\nper-client = {{ {limits} }}\n");
        let config = Config::parse(&text, Path::new("/")).map_err(|error| error.to_string())?;
        let settings = config.sites[0]
            .settings()
            .map_err(|error| error.to_string())?;
        Ok::<_, String>(settings.access)
    };
    let access = of("requests-per-second = 20, bytes-per-second = 1024").unwrap();
    let requests = access.requests.map(|rate| (rate.per_second, rate.burst));
    assert_eq!(
        (requests, access.bytes_per_second),
        (Some((20, 20)), Some(1024))
    );
    for (limits, words) in [
        ("requests-per-second = 0", "line 3"),
        ("burst = 5", "per-client.burst"),
        ("bytes-per-second = 1023", "at least 1024"),
        ("bytes = 5", "line 3"),
    ] {
        let error = of(limits).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_field_is_set_once_whatever_its_letters() {
    let text = "[[site]]\nroot = 'a'\nheaders = { 'X-A' = 'one', x-a = 'two' }\n";
    let config = Config::parse(text, Path::new("/")).unwrap();
    let error = config.sites[0].settings().unwrap_err().to_string();
    assert!(error.starts_with("headers.x-a: "), "{error}");
}

#[test]
fn an_authority_is_asked_for_the_names_of_all_sites_unless_it_says_others() {
    let said = "[acme]\nagree-to-terms = true\nstate = \"acme\"\nca = \"/ca.pem\"\n";
    let sites = "[[site]]\nroot = \"a\"\nnames = [\"a.example\"]\n[[site]]\nroot = \"b\"\nnames = [\"b.example\"]\n";
    let of = |text: String| Config::parse(&text, Path::new("/etc/scrim")).unwrap();
    let config = of(format!("{said}{sites}"));
    let acme = config.acme().unwrap().unwrap();
    assert_eq!(acme.names(), ["a.example", "b.example"]);
    let said_of_it = config.acme.unwrap();
    assert_eq!(said_of_it.state, Path::new("/etc/scrim/acme"));
    assert_eq!(said_of_it.ca.unwrap(), Path::new("/ca.pem"));
    let config = of(format!("{said}names = [\"c.example\"]\n{sites}"));
    assert_eq!(config.acme().unwrap().unwrap().names(), ["c.example"]);
    assert!(of(sites.to_owned()).acme().unwrap().is_none());
}

#[test]
fn an_authority_needs_agreement_and_a_folder() {
    for said in ["", "agree-to-terms = true\n", "state = \"acme\"\n"] {
        let text = format!("[acme]\n{said}names = [\"a.example\"]\n");
        let config = Config::parse(&text, Path::new("/etc/scrim")).unwrap();
        let error = config.acme().unwrap_err().to_string();
        assert!(error.starts_with("acme: "), "{error}");
    }
}
