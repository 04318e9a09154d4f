//! Sessions: configuration, policy, life cycle, idempotency and durability.

mod agent_types;
mod durability;
mod hostile_clients;
mod idempotency;
mod lifecycle;
mod policy;
mod postgres;
