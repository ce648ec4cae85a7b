-- For sqlc only, which reads migrations and neither the migrator nor DO blocks: the
-- schemas that these make.
CREATE SCHEMA actlog;
CREATE SCHEMA report;
