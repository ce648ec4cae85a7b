-- The login of Grafana. It can read the views of schema report, and nothing else. Run this after
-- actlog has migrated the database, as a role that may create roles. To change the password, run
-- it again:
--
--   ACTLOG_REPORT_PASSWORD='a long one' psql -f deploy/grafana/login.sql postgres://...
\set ON_ERROR_STOP on
SET client_min_messages = warning;
\getenv password ACTLOG_REPORT_PASSWORD
SELECT 'CREATE ROLE grafana LOGIN' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'grafana') \gexec
ALTER ROLE grafana PASSWORD :'password';
ALTER ROLE grafana SET default_transaction_read_only = on;
ALTER ROLE grafana SET statement_timeout = '30s';
ALTER ROLE grafana SET work_mem = '64MB'; -- percentiles of a million calls sort in memory
ALTER ROLE grafana SET jit = off; -- compiling takes longer than these queries do
ALTER ROLE grafana SET search_path = report;
GRANT actlog_report TO grafana;
