//! An order, from the account to the certificate.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Error, Identifier, NewAccount, NewOrder, Order,
    OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use zeroize::{Zeroize, Zeroizing};

use super::challenge::Answers;
use super::client::Client;
use super::fault::Fault;
use super::settings::Settings;
use super::state::State;
use crate::tls::{Certificate, Certificates};

/// Intervals at which an order's state is asked for: short at first, then longer, for three minutes.
const POLL_POLICY: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(500))
    .backoff(1.5)
    .timeout(Duration::from_secs(180));

/// Result of an order.
pub(super) struct Issued {
    pub(super) certificate: Certificate,
    /// The private key and the chain, in PEM.
    pub(super) text: Zeroizing<String>,
}

/// The account in the folder, or a new one, which is then stored there.
pub(super) async fn account(
    settings: &Settings,
    client: Client,
    state: &State,
) -> Result<Account, Fault> {
    let builder = Account::builder_with_http(Box::new(client));
    if let Some(stored) = state.account()? {
        return Ok(builder.from_credentials(stored).await?);
    }
    let contact: Vec<&str> = settings.contact.iter().map(String::as_str).collect();
    let new = NewAccount {
        contact: &contact,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let directory = settings.directory.clone();
    let (account, credentials) = builder.create(&new, directory, None).await?;
    state.keep_account(&credentials)?;
    Ok(account)
}

/// Orders a certificate with a new key for these names.
pub(super) async fn obtain(
    account: &Account,
    names: &[String],
    certificates: &Certificates,
) -> Result<Issued, Fault> {
    let identifiers: Vec<_> = names.iter().cloned().map(Identifier::Dns).collect();
    let mut order = account.new_order(&NewOrder::new(&identifiers)).await?;
    prove(&mut order, certificates).await?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(&key)?;
    order.finalize_csr(request.der()).await?;
    let chain = order.poll_certificate(&POLL_POLICY).await?;
    issued(&chain, &key, names)
}

/// Answers the challenges of an order, for as long as the authority looks.
async fn prove(order: &mut Order, certificates: &Certificates) -> Result<(), Fault> {
    let mut answers = Answers::new(certificates);
    let Err(failed) = answer(order, &mut answers).await else {
        return Ok(());
    };
    let has_spoken = match &failed {
        Fault::Order => true,
        Fault::Authority(error) => matches!(**error, Error::Api(_)),
        _ => false,
    };
    let reason = match has_spoken {
        true => reason(order).await,
        false => None,
    };
    Err(reason.unwrap_or(failed))
}

/// Makes every challenge ready and waits for the authority's verdict, which may come with the reply to
/// "ready": an authority that is fast has looked by then.
async fn answer(order: &mut Order, answers: &mut Answers<'_>) -> Result<(), Fault> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            _ => return Err(Fault::Order),
        }
        let name = authorization.identifier().to_string();
        let Some(mut challenge) = authorization.challenge(ChallengeType::TlsAlpn01) else {
            return Err(Fault::NoTlsAlpn(name));
        };
        answers.give(&name, challenge.key_authorization().digest().as_ref())?;
        challenge.set_ready().await?;
    }
    match order.poll_ready(&POLL_POLICY).await? {
        OrderStatus::Ready | OrderStatus::Valid => Ok(()),
        _ => Err(Fault::Order),
    }
}

/// Finds the challenge that has failed, and its reason.
async fn reason(order: &mut Order) -> Option<Fault> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.ok()?;
        let state = authorization.refresh().await.ok()?;
        let problem = state.challenges.iter().find_map(|c| c.error.clone());
        if let Some(problem) = problem {
            let name = state.identifier().to_string();
            return Some(Fault::Challenge { name, problem });
        }
    }
    None
}

/// Checks the certificate that the authority sent, and puts it together with its key.
fn issued(chain: &str, key: &KeyPair, names: &[String]) -> Result<Issued, Fault> {
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
    let certificates = certificates.map_err(|_| Fault::Unusable)?;
    let mut private = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let first = pem("PRIVATE KEY", private.secret_der());
    // Only what was understood is kept.
    let rest = certificates.iter().map(|der| pem("CERTIFICATE", der));
    let rest: String = rest.map(|text| text.to_string()).collect();
    let mut text = Zeroizing::new(String::with_capacity(first.len() + rest.len()));
    text.push_str(&first);
    text.push_str(&rest);
    let signing = any_supported_type(&private);
    private.zeroize();
    let certified = CertifiedKey::new(certificates, signing.map_err(|_| Fault::Unusable)?);
    certified.keys_match().map_err(|_| Fault::Unusable)?;
    let certificate = Certificate::new(certified).ok_or(Fault::Unusable)?;
    match is_for(&certificate, names) {
        true => Ok(Issued { certificate, text }),
        false => Err(Fault::Unusable),
    }
}

/// Returns whether a certificate is for each of these names.
pub(super) fn is_for(certificate: &Certificate, names: &[String]) -> bool {
    let has = |name: &String| certificate.names().any(|of| of == name);
    names.iter().all(has)
}

pub(super) fn pem(kind: &str, der: &[u8]) -> Zeroizing<String> {
    let text = Zeroizing::new(STANDARD.encode(der));
    // Of its whole length from the start, so that nothing of a key is left where it grew.
    let len = text.len() + text.len() / 64 + 2 * kind.len() + 64;
    let mut pem = Zeroizing::new(String::with_capacity(len));
    for part in ["-----BEGIN ", kind, "-----\n"] {
        pem.push_str(part);
    }
    for line in text.as_bytes().chunks(64) {
        pem.push_str(str::from_utf8(line).unwrap_or_default());
        pem.push('\n');
    }
    for part in ["-----END ", kind, "-----\n"] {
        pem.push_str(part);
    }
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(key: &KeyPair, names: &[String]) -> String {
        let params = CertificateParams::new(names.to_vec()).unwrap();
        let made = params.self_signed(key).unwrap();
        pem("CERTIFICATE", made.der()).to_string()
    }

    #[test]
    fn a_certificate_for_the_key_and_the_names_is_taken_and_others_are_not() {
        let key = KeyPair::generate().unwrap();
        let names = ["a.example".to_owned(), "b.example".to_owned()];
        let sent = chain(&key, &names);
        let issued_now = issued(&sent, &key, &names).unwrap();
        assert!(issued_now.text.starts_with("-----BEGIN PRIVATE KEY-----\n"));
        assert!(issued_now.text.ends_with(&sent));
        assert!(issued(&sent, &key, &names[..1]).is_ok());
        let fewer = chain(&key, &names[..1]);
        assert!(issued(&fewer, &key, &names).is_err());
        let other = KeyPair::generate().unwrap();
        assert!(issued(&sent, &other, &names).is_err());
        for nothing in [
            "",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            assert!(issued(nothing, &key, &names).is_err());
        }
    }
}
