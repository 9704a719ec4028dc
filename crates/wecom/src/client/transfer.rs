//! Moving customers from one member to another (继承).
//!
//! Success of a transfer call means *started*: the move completes by itself after 24 hours unless the customer
//! refuses. There is no request id, so after an unknown outcome the result is read before anything is sent again.
//! Members in service and members who have left have different APIs; the wrong pair is refused by WeCom.

use serde::{Deserialize, Serialize};

use super::limits::Check;
use super::{Client, Pager, api, lenient};
use crate::Error;
use crate::error::{Classification, classify};

/// WeCom takes at most this many customers in one transfer call.
pub const TRANSFER_CUSTOMERS_MAX: usize = 100;

/// What to move; the same for members in service and members who have left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferCustomer {
    /// Who has the customers.
    pub handover_userid: String,
    /// Who gets them.
    pub takeover_userid: String,
    /// One to 100 customers.
    pub external_userid: Vec<String>,
    /// Sent to the customer afterwards, at most 200 characters; WeCom's own text if absent. Only in service.
    #[serde(default, skip_serializing_if = "super::limits::blank")]
    pub transfer_success_msg: Option<String>,
}

impl TransferCustomer {
    /// The limits of the in-service call.
    pub fn check(&self) -> Result<(), Error> {
        let check = Check::new(api::TRANSFER_CUSTOMER);
        self.check_common(check)?;
        check.characters(
            "transfer_success_msg",
            self.transfer_success_msg.as_deref().unwrap_or_default(),
            200,
        )
    }

    /// The limits of the call for members who have left.
    pub fn check_resigned(&self) -> Result<(), Error> {
        let check = Check::new(api::RESIGNED_TRANSFER_CUSTOMER);
        self.check_common(check)?;
        if self.transfer_success_msg.is_some() {
            return Err(check.not_allowed(
                "transfer_success_msg",
                "does not exist for members who have left",
            ));
        }
        Ok(())
    }

    fn check_common(&self, check: Check) -> Result<(), Error> {
        check.required("handover_userid", &self.handover_userid)?;
        check.required("takeover_userid", &self.takeover_userid)?;
        if self
            .handover_userid
            .eq_ignore_ascii_case(&self.takeover_userid)
        {
            return Err(
                check.not_allowed("takeover_userid", "is the same member as handover_userid")
            );
        }
        check.some_entries(
            "external_userid",
            &self.external_userid,
            TRANSFER_CUSTOMERS_MAX,
        )
    }
}

/// The answer to a transfer call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transferred {
    /// One item per customer. `None`: the answer had no list, so nothing is known about any of them.
    #[serde(default, deserialize_with = "lenient::known_rows")]
    pub customer: Option<Vec<TransferItem>>,
}

/// What became of one customer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferItem {
    /// The customer.
    pub external_userid: String,
    /// 0 = the move was started; otherwise the refusal for this customer alone.
    #[serde(default)]
    pub errcode: i64,
}

impl TransferItem {
    /// `None` when the move was started.
    pub fn refusal(&self) -> Option<Classification> {
        (self.errcode != 0).then(|| classify(self.errcode))
    }
}

/// The two members a result is asked for. Results of all attempts of the pair come together: there is no
/// attempt id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferPair {
    /// Who had the customers.
    pub handover_userid: String,
    /// Who gets them.
    pub takeover_userid: String,
}

/// One page of results, at most 1000 rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferResultPage {
    /// `None`: the answer had no list; nothing is known, nothing may be concluded.
    #[serde(default, deserialize_with = "lenient::known_rows")]
    pub customer: Option<Vec<TransferRow>>,
    /// Empty at the end.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub next_cursor: String,
}

/// How one customer's move stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferRow {
    /// The customer.
    pub external_userid: String,
    /// The state; whatever is not documented is kept raw.
    #[serde(default)]
    pub status: TransferStatus,
    /// Seconds since the epoch; in the future while waiting, 0 after a refusal.
    #[serde(
        default,
        deserialize_with = "lenient::int",
        skip_serializing_if = "Option::is_none"
    )]
    pub takeover_time: Option<i64>,
}

/// The state of a move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "serde_json::Value", into = "Option<i64>")]
#[non_exhaustive]
pub enum TransferStatus {
    /// 1: done.
    Done,
    /// 2: waiting for the customer or the 24 hours.
    Waiting,
    /// 3: the customer refused.
    Refused,
    /// 4: the receiver has as many customers as allowed.
    ReceiverFull,
    /// Any other number (older texts had 5, "no record"): nothing may be concluded.
    Other(i64),
    /// No status, or not a number: nothing may be concluded.
    #[default]
    Missing,
}

impl TransferStatus {
    /// WeCom's number.
    pub fn raw(self) -> Option<i64> {
        match self {
            Self::Done => Some(1),
            Self::Waiting => Some(2),
            Self::Refused => Some(3),
            Self::ReceiverFull => Some(4),
            Self::Other(raw) => Some(raw),
            Self::Missing => None,
        }
    }
}

impl From<serde_json::Value> for TransferStatus {
    fn from(value: serde_json::Value) -> Self {
        match lenient::whole_number(&value) {
            Some(1) => Self::Done,
            Some(2) => Self::Waiting,
            Some(3) => Self::Refused,
            Some(4) => Self::ReceiverFull,
            Some(raw) => Self::Other(raw),
            None => Self::Missing,
        }
    }
}

impl From<TransferStatus> for Option<i64> {
    fn from(status: TransferStatus) -> Self {
        status.raw()
    }
}

/// One page of customers whose member has left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnassignedPage {
    /// The customers; members who left without any are not listed.
    #[serde(default, deserialize_with = "lenient::rows")]
    pub info: Vec<Unassigned>,
    /// The last page?
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub is_last: bool,
    /// Empty at the end.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub next_cursor: String,
}

/// A customer whose member has left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unassigned {
    /// The member who left.
    pub handover_userid: String,
    /// The customer.
    pub external_userid: String,
    /// When the member left, seconds since the epoch.
    #[serde(default, deserialize_with = "lenient::int")]
    pub dimission_time: Option<i64>,
}

#[derive(Serialize)]
struct ResultRequest<'a> {
    handover_userid: &'a str,
    takeover_userid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
}

#[derive(Serialize)]
struct UnassignedRequest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
    page_size: u32,
}

impl Client {
    /// Starts moves of customers of a member in service. Not idempotent: see the module's head.
    pub async fn transfer_customer(
        &self,
        request: &TransferCustomer,
    ) -> Result<Transferred, Error> {
        request.check()?;
        self.post(api::TRANSFER_CUSTOMER, request).await
    }

    /// One page of how moves between two members in service stand.
    pub async fn transfer_result(
        &self,
        pair: &TransferPair,
        cursor: Option<&str>,
    ) -> Result<TransferResultPage, Error> {
        self.result_page(api::TRANSFER_RESULT, pair, cursor).await
    }

    /// All pages of [`Client::transfer_result`]. `None`: no page had a list; nothing is known.
    pub async fn transfer_result_all(
        &self,
        pair: &TransferPair,
    ) -> Result<Option<Vec<TransferRow>>, Error> {
        self.result_all(api::TRANSFER_RESULT, pair).await
    }

    /// Starts moves of customers of a member who has left. WeCom refuses two at once to one receiver (45035).
    pub async fn resigned_transfer_customer(
        &self,
        request: &TransferCustomer,
    ) -> Result<Transferred, Error> {
        request.check_resigned()?;
        self.post(api::RESIGNED_TRANSFER_CUSTOMER, request).await
    }

    /// One page of how moves from a member who has left stand.
    pub async fn resigned_transfer_result(
        &self,
        pair: &TransferPair,
        cursor: Option<&str>,
    ) -> Result<TransferResultPage, Error> {
        self.result_page(api::RESIGNED_TRANSFER_RESULT, pair, cursor)
            .await
    }

    /// All pages of [`Client::resigned_transfer_result`]. `None`: no page had a list; nothing is known.
    pub async fn resigned_transfer_result_all(
        &self,
        pair: &TransferPair,
    ) -> Result<Option<Vec<TransferRow>>, Error> {
        self.result_all(api::RESIGNED_TRANSFER_RESULT, pair).await
    }

    /// One page of at most 1000 customers whose member has left.
    pub async fn get_unassigned_list(&self, cursor: Option<&str>) -> Result<UnassignedPage, Error> {
        self.post(
            api::GET_UNASSIGNED_LIST,
            &UnassignedRequest {
                cursor,
                page_size: 1000,
            },
        )
        .await
    }

    /// All pages of [`Client::get_unassigned_list`].
    pub async fn get_unassigned_list_all(&self) -> Result<Vec<Unassigned>, Error> {
        let mut pager = Pager::new(api::GET_UNASSIGNED_LIST);
        let mut all = Vec::new();
        while let Some(cursor) = pager.next() {
            match self.get_unassigned_list(cursor).await {
                Ok(page) => {
                    all.extend(page.info);
                    pager.advance(if page.is_last {
                        String::new()
                    } else {
                        page.next_cursor
                    })?;
                }
                Err(error) => {
                    pager.restart_after(error)?;
                    all.clear();
                }
            }
        }
        Ok(all)
    }

    async fn result_page(
        &self,
        api: &'static str,
        pair: &TransferPair,
        cursor: Option<&str>,
    ) -> Result<TransferResultPage, Error> {
        let check = Check::new(api);
        check.required("handover_userid", &pair.handover_userid)?;
        check.required("takeover_userid", &pair.takeover_userid)?;
        let request = ResultRequest {
            handover_userid: &pair.handover_userid,
            takeover_userid: &pair.takeover_userid,
            cursor,
        };
        self.post(api, &request).await
    }

    async fn result_all(
        &self,
        api: &'static str,
        pair: &TransferPair,
    ) -> Result<Option<Vec<TransferRow>>, Error> {
        let mut pager = Pager::new(api);
        let mut all: Option<Vec<TransferRow>> = None;
        while let Some(cursor) = pager.next() {
            match self.result_page(api, pair, cursor).await {
                Ok(page) => {
                    if let Some(rows) = page.customer {
                        all.get_or_insert_default().extend(rows);
                    }
                    pager.advance(page.next_cursor)?;
                }
                Err(error) => {
                    pager.restart_after(error)?;
                    all = None;
                }
            }
        }
        Ok(all)
    }
}
