ALTER TABLE webhooks ADD COLUMN last_error {text};
ALTER TABLE webhooks ADD COLUMN leased_by {id};
ALTER TABLE webhooks ADD COLUMN leased_until BIGINT NOT NULL DEFAULT 0;
