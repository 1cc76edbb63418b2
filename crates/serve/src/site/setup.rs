//! Values that a site computes from its settings before it starts.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};

use super::error::SiteError;
use super::page;
use super::pattern::Pattern;
use super::settings::{Hsts, Settings};
use crate::http::Field;

/// Longest error page of the owner's, in bytes.
const LONGEST_PAGE: u64 = 1 << 20;

/// The fields of every answer of a site.
pub(super) fn common_fields(settings: &Settings) -> Result<Arc<[Field]>, SiteError> {
    if let Some((name, _)) = settings
        .fields
        .iter()
        .find(|(name, _)| page::is_own_field(name))
    {
        return Err(SiteError::Field {
            name: name.to_string(),
        });
    }
    let mut common = vec![page::no_sniffing()];
    if let Some(Hsts {
        seconds,
        subdomains,
        preload,
    }) = settings.hsts
    {
        let subdomains = if subdomains {
            "; includeSubDomains"
        } else {
            ""
        };
        let preload = if preload { "; preload" } else { "" };
        let value = format!("max-age={seconds}{subdomains}{preload}");
        if let Ok(value) = HeaderValue::try_from(value) {
            common.push((header::STRICT_TRANSPORT_SECURITY, value));
        }
    }
    common.extend_from_slice(&settings.fields);
    Ok(common.into())
}

/// Adds the fields of every answer to those of some pages. A field that the site sets too has the site's value alone.
pub(super) fn with_common(mut fields: Vec<Field>, common: &[Field]) -> Arc<[Field]> {
    fields.retain(|(name, _)| !common.iter().any(|(of_site, _)| of_site == name));
    fields.extend_from_slice(common);
    fields.into()
}

pub(super) fn rules(settings: &Settings) -> Result<Vec<(Pattern, HeaderValue)>, SiteError> {
    let rules = settings.cache_rules.iter().map(|rule| {
        let value = HeaderValue::from_str(&rule.value).map_err(|_| SiteError::Rule {
            pattern: rule.pattern.clone(),
        })?;
        Ok((Pattern::new(&rule.pattern), value))
    });
    rules.collect()
}

/// Pages by status, with their fields.
pub(super) type ErrorPages = HashMap<StatusCode, (Arc<[Field]>, Bytes)>;

/// The usual pages with `usual` fields, and the owner's pages with `fields`: the owner decides what those load.
pub(super) fn error_pages(
    own: &BTreeMap<u16, PathBuf>,
    usual: &Arc<[Field]>,
    fields: &Arc<[Field]>,
) -> Result<ErrorPages, SiteError> {
    let mut pages: ErrorPages = page::STATUSES
        .into_iter()
        .map(|status| (status, (Arc::clone(usual), page::error_html(status))))
        .collect();
    for (&number, path) in own {
        let status = StatusCode::from_u16(number).ok();
        let status = status.filter(|status| status.is_client_error() || status.is_server_error());
        let status = status.ok_or(SiteError::Status { status: number })?;
        pages.insert(status, (Arc::clone(fields), read_page(path)?));
    }
    Ok(pages)
}

fn read_page(path: &Path) -> Result<Bytes, SiteError> {
    let failed = |source: io::Error| SiteError::Page {
        path: path.to_owned(),
        source,
    };
    let mut page = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(LONGEST_PAGE + 1)
        .read_to_end(&mut page)
        .map_err(failed)?;
    if page.len() as u64 > LONGEST_PAGE {
        return Err(SiteError::PageTooLong {
            path: path.to_owned(),
        });
    }
    Ok(page.into())
}
