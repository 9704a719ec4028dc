//! Access tokens in Redis for WeCom's client: `quota` keeps them, `wecom` asks through its trait, neither knows the other.

use secrecy::{ExposeSecret, SecretString};
use wecom::client::{StoreFuture, Token, TokenStore};

use crate::app::Redis;

/// The tokens of one corp's apps.
#[derive(Debug)]
pub struct SharedTokens(pub quota::Tokens<Redis>);

impl TokenStore for SharedTokens {
    fn load<'a>(&'a self, app_key: &'a str) -> StoreFuture<'a, Option<Token>> {
        Box::pin(async move {
            let token = self.0.load(app_key, None).await?;
            Ok(token.map(|token| {
                let expires_at_ms = u64::try_from(token.expires_at_ms).unwrap_or_default();
                Token::new(token.value.expose_secret(), expires_at_ms)
            }))
        })
    }

    fn store_if<'a>(
        &'a self,
        app_key: &'a str,
        failed: Option<&'a str>,
        token: &'a Token,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let kept = quota::Token {
                value: SecretString::from(token.expose().to_owned()),
                expires_at_ms: i64::try_from(token.expires_at_ms).unwrap_or(i64::MAX),
            };
            let stored = self.0.store_if(app_key, failed, &kept, None).await?;
            Ok(matches!(stored, quota::token_store::Stored::Stored(_)))
        })
    }

    fn try_lease<'a>(
        &'a self,
        app_key: &'a str,
        owner: &'a str,
        lease_ms: u64,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move { Ok(self.0.try_lease(app_key, owner, lease_ms, None).await?) })
    }

    fn release<'a>(&'a self, app_key: &'a str, owner: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.0.release(app_key, owner).await?;
            Ok(())
        })
    }
}
