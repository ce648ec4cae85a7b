package report

// Role may read the views of schema report, and nothing else. The migration makes it.
const Role = "actlog_report"

// roleFaults returns why the role that logged in is not safe, or of no use. It asks about the login, not about the
// current role: a statement may change that.
const roleFaults = `WITH me AS MATERIALIZED (SELECT * FROM pg_roles WHERE rolname = session_user)
SELECT fault
FROM (
    SELECT 1, 'is a superuser' FROM me WHERE rolsuper
    UNION ALL
    SELECT 2, 'may create roles' FROM me WHERE rolcreaterole
    UNION ALL
    SELECT 3, 'may create databases' FROM me WHERE rolcreatedb
    UNION ALL
    SELECT 4, 'may replicate' FROM me WHERE rolreplication
    UNION ALL
    SELECT 5, 'bypasses row-level security' FROM me WHERE rolbypassrls
    UNION ALL
    SELECT 6, 'is a member of ' || string_agg(r.rolname, ', ' ORDER BY r.rolname)
    FROM me
    JOIN pg_roles AS r ON r.oid <> me.oid AND r.rolname <> 'actlog_report' AND pg_has_role(me.oid, r.oid, 'MEMBER')
    WHERE NOT me.rolsuper
    HAVING count(*) > 0
    UNION ALL
    SELECT 7, 'owns the database' FROM me JOIN pg_database AS d ON d.datdba = me.oid AND d.datname = current_database()
    UNION ALL
    SELECT 8, 'is no member of actlog_report' FROM me
    WHERE NOT EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = 'actlog_report' AND pg_has_role(me.oid, r.oid, 'MEMBER'))
    UNION ALL
    SELECT 9, 'may use schema actlog'
    WHERE EXISTS (
        SELECT FROM pg_roles AS r
        JOIN pg_namespace AS n ON n.nspname = 'actlog' AND (has_schema_privilege(r.oid, n.oid, 'USAGE') OR has_schema_privilege(r.oid, n.oid, 'CREATE'))
        WHERE r.rolname IN (session_user, 'actlog_report')
    ) AND NOT (SELECT rolsuper FROM me)
    UNION ALL
    SELECT 10, 'cannot use schema report'
    WHERE NOT EXISTS (SELECT FROM pg_namespace AS n WHERE n.nspname = 'report' AND has_schema_privilege(session_user, n.oid, 'USAGE'))
) AS f (place, fault)
ORDER BY place`

const mayLock = `SELECT 'yes' WHERE has_function_privilege(session_user, 'pg_advisory_lock(bigint)', 'EXECUTE')`
