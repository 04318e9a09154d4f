//! Sessions: configuration, policy, life cycle, idempotency and durability.

mod agent_types;
mod durability;
mod hostile_clients;
mod idempotency;
mod lifecycle;
mod network;
mod pausing;
mod policy;
mod postgres;
mod projects;
mod quotas;
mod search;
mod storage;
mod updates;
mod usage_history;
