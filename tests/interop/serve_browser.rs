//! `scrim serve` with a browser, Chromium without a window: pages, listings, figures and media that seek.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::server::{Server, Site};
use crate::support::{Background, have, succeeded, wait_until};

/// Message that the page writes to its console, which shows that the console is read.
const SAID: &str = "the page is complete";

/// Seconds that the sound lasts, of 16 bits in stereo at 44.1 kHz: some 50 MB, more than a browser loads ahead.
const SOUND: u32 = 300;

fn site() -> Option<Site> {
    have(&["chromium"]).then(Site::new)
}

/// A browser with a profile of its own.
fn chromium(server: &Server, args: &[&str]) -> Command {
    let place = &server.site.place;
    let usual = "--headless=new --no-sandbox --ignore-certificate-errors --disable-gpu --no-first-run \
                 --disable-dev-shm-usage --enable-logging=stderr --v=0";
    let mut command = place.command("chromium");
    command
        .env("HOME", place.dir())
        .args(usual.split_whitespace());
    command.arg(format!(
        "--user-data-dir={}",
        place.path("profile").display()
    ));
    command.args(args);
    command
}

/// Loads a page at some size of a window; returns what it looks like as HTML, and what its console says.
fn load(server: &Server, url: &str, size: &str) -> (String, Vec<String>) {
    let size = format!("--window-size={size}");
    let args = ["--virtual-time-budget=5000", &size, "--dump-dom", url];
    let output = chromium(server, &args).output().unwrap();
    let page = succeeded("chromium", &output);
    let errors = String::from_utf8_lossy(&output.stderr);
    let console = errors.lines().filter(|line| line.contains("CONSOLE"));
    (page, console.map(str::to_owned).collect())
}

/// Takes a picture, which has to have the window's size and something on it.
fn picture(server: &Server, url: &str, (width, height): (u32, u32)) {
    let place = &server.site.place;
    let size = format!("--window-size={width},{height}");
    let args = [
        "--virtual-time-budget=3000",
        &size,
        "--screenshot=picture.png",
        url,
    ];
    succeeded("chromium", &chromium(server, &args).output().unwrap());
    let png = fs::read(place.path("picture.png")).unwrap();
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    assert_eq!((number(16), number(20)), (width, height), "{url}");
    assert!(
        png.len() > 5000,
        "{url}: {} bytes, an empty page?",
        png.len()
    );
}

/// The access log, a value for each line.
fn log(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn logged(site: &Site) -> Server<'_> {
    site.serve(&["--access-log", "access.log", "--access-log-format", "json"])
}

#[test]
fn a_page_loads_with_its_style_its_script_and_its_image() {
    let Some(site) = site() else { return };
    site.write("index.html", "<!doctype html><html lang=en><meta charset=utf-8><title>page</title>\
        <link rel=icon href='data:,'><link rel=stylesheet href='css/style.css'>\
        <p id=styled>some text</p><img id=image src='image.svg'><script type=module src='js/app.js'></script>");
    site.write("css/style.css", "#styled { color: rgb(1, 2, 3) }");
    site.write(
        "image.svg",
        "<svg xmlns='http://www.w3.org/2000/svg' width='31' height='17'/>",
    );
    site.write("js/app.js", format!("import {{ add }} from './sum.mjs';\n\
        await new Promise(done => addEventListener('load', done));\n\
        const color = getComputedStyle(document.getElementById('styled')).color;\n\
        document.title = [color, document.getElementById('image').naturalWidth, add(20, 3)].join(' ');\n\
        console.log('{SAID}');"));
    site.write("js/sum.mjs", "export const add = (a, b) => a + b;");
    let server = logged(&site);
    let (page, console) = load(&server, &server.url(""), "1280,800");
    assert!(page.contains("<title>rgb(1, 2, 3) 31 23</title>"), "{page}");
    assert_eq!(console.len(), 1, "{console:?}");
    assert!(console[0].contains(SAID), "{console:?}");
    server.stop();
    let lines = log(&site.place.path("access.log"));
    assert_eq!(lines.len(), 5, "{lines:?}");
    for line in &lines {
        let text = line.to_string();
        assert!(text.contains("HTTP/2.0") && text.contains("200"), "{text}");
    }
}

#[test]
fn listings_and_figures_are_drawn_on_desks_and_phones() {
    let Some(site) = site() else { return };
    for name in [
        "letters/a.txt",
        "image.png",
        "a file with a rather long name, for a phone at least.tar.gz",
    ] {
        site.write(name, "some bytes");
    }
    let server = site.serve(&["--status", "127.0.0.1:0"]);
    let (listing, status) = (server.url(""), server.urls[1].clone());
    for size in [(1280, 800), (390, 844)] {
        let window = format!("{},{}", size.0, size.1);
        let (page, console) = load(&server, &listing, &window);
        assert!(
            page.contains("letters/") && page.contains("a%20file%20with"),
            "{page}"
        );
        assert_eq!(console, [] as [&str; 0]);
        let (page, console) = load(&server, &status, &window);
        assert!(
            page.contains("Throughput")
                && page.contains("up for")
                && page.contains("No volume is open"),
            "{page}"
        );
        assert_eq!(console, [] as [&str; 0]);
        picture(&server, &listing, size);
        picture(&server, &status, size);
    }
    server.stop();
}

/// A sound that is silent.
fn sound(path: &Path) {
    let bytes = SOUND * 44_100 * 4;
    let mut head = b"RIFF".to_vec();
    head.extend((bytes + 36).to_le_bytes());
    head.extend(b"WAVEfmt ");
    head.extend(16_u32.to_le_bytes());
    head.extend([1, 0, 2, 0]);
    head.extend(44_100_u32.to_le_bytes());
    head.extend((44_100_u32 * 4).to_le_bytes());
    head.extend([4, 0, 16, 0]);
    head.extend(b"data");
    head.extend(bytes.to_le_bytes());
    fs::write(path, head).unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(u64::from(bytes) + 44).unwrap();
}

#[test]
fn a_sound_seeks_without_loading_what_lies_between() {
    let Some(site) = site() else { return };
    sound(&site.place.path("www/sound.wav"));
    site.write("beacon.txt", "");
    site.write("index.html", "<!doctype html><html lang=en><meta charset=utf-8><title>sound</title>\
        <link rel=icon href='data:,'><audio id=sound preload=metadata src='sound.wav'></audio><script>\
        const sound = document.getElementById('sound');\
        const tell = (what) => fetch(`beacon.txt?${what}=${Math.round(sound.currentTime)}`);\
        sound.onerror = () => tell('error');\
        sound.onloadedmetadata = () => { sound.currentTime = sound.duration - 10; };\
        sound.onseeked = () => tell('seeked');</script>");
    let server = logged(&site);
    let url = server.url("");
    let mut command = chromium(&server, &["--remote-debugging-port=0", &url]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let browser = Background::start(&mut command);
    let path = site.place.path("access.log");
    wait_until("the page tells where it is", || {
        fs::read_to_string(&path).is_ok_and(|log| log.contains("beacon.txt?"))
    });
    drop(browser);
    server.stop();
    let lines = log(&path);
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    assert!(
        text.iter()
            .any(|line| line.contains("beacon.txt?seeked=290")),
        "{text:#?}"
    );
    let parts: Vec<&String> = text
        .iter()
        .filter(|line| line.contains("sound.wav"))
        .collect();
    assert!(parts.len() >= 2, "{text:#?}");
    assert!(parts.iter().all(|line| line.contains("206")), "{text:#?}");
}
