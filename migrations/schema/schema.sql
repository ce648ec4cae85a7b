-- For sqlc only, which reads migrations and not the migrator: the schema that the
-- migrator makes before the first one.
CREATE SCHEMA actlog;
