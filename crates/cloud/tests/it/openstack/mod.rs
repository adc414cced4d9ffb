//! The adapter and the saga against real services, whose folder `ORLOP_TEST_OPENSTACK` names; `scripts/with-openstack` provides
//! them. Says `skipped: …` where there are none. One test after the other, for they share hosts.

mod cut;
mod real;
mod services;
