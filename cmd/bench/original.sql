-- The tables of the Java original, as Hibernate creates them from its entities, with the indexes
-- that the original lacks.
DROP SCHEMA IF EXISTS original CASCADE;
CREATE SCHEMA original;
CREATE TABLE original.plan_execution_record (
    id bigint PRIMARY KEY,
    current_plan_id varchar(255) NOT NULL UNIQUE,
    root_plan_id varchar(255),
    parent_plan_id varchar(255),
    title varchar(255),
    user_request text,
    start_time timestamp,
    end_time timestamp,
    current_step_index integer,
    completed boolean NOT NULL,
    summary text,
    tool_call_id varchar(255),
    model_name varchar(255)
);
CREATE TABLE original.agent_execution_record (
    id bigint PRIMARY KEY,
    step_id varchar(255) UNIQUE,
    plan_execution_id bigint REFERENCES original.plan_execution_record (id),
    agent_name varchar(255),
    agent_description text,
    start_time timestamp,
    end_time timestamp,
    max_steps integer NOT NULL,
    current_step integer NOT NULL,
    status varchar(255),
    agent_request text,
    result text,
    error_message text,
    model_name varchar(255)
);
CREATE TABLE original.think_act_record (
    id bigint PRIMARY KEY,
    think_act_id varchar(255),
    parent_execution_id bigint,
    agent_execution_record_id bigint REFERENCES original.agent_execution_record (id),
    think_input text,
    think_output text,
    error_message text,
    input_char_count integer,
    output_char_count integer
);
CREATE TABLE original.act_tool_info (
    id bigint PRIMARY KEY,
    name varchar(255),
    parameters text,
    result text,
    tool_call_id varchar(255),
    think_act_record_id bigint REFERENCES original.think_act_record (id)
);
INSERT INTO original.plan_execution_record
SELECT id, current_plan_id, root_plan_id, parent_plan_id, left(title, 255), user_request, start_time, end_time, NULL, completed, summary, tool_call_id, model_name
FROM actlog.plan_execution_record;
INSERT INTO original.agent_execution_record
SELECT a.id, a.step_id, p.id, a.agent_name, a.agent_description, a.start_time, a.end_time, 0, 0, a.status, a.agent_request, a.result, a.error_message, a.model_name
FROM actlog.agent_execution_record AS a
JOIN actlog.plan_execution_record AS p ON p.root_plan_id = a.root_plan_id AND p.current_plan_id = a.shown_plan_id;
INSERT INTO original.think_act_record
SELECT c.id, 'thinkact-' || c.id, a.id, a.id, c.think_input, c.think_output, c.error_message, c.input_char_count, c.output_char_count
FROM actlog.think_act_record AS c
JOIN actlog.agent_execution_record AS a ON a.root_plan_id = c.root_plan_id AND a.step_id = c.step_id;
INSERT INTO original.act_tool_info
SELECT t.id, t.name, t.parameters, t.result, t.tool_call_id, c.id
FROM actlog.act_tool_info AS t
JOIN actlog.think_act_record AS c ON c.root_plan_id = t.root_plan_id AND c.step_id = t.step_id AND c.seq = t.seq;
CREATE INDEX ON original.plan_execution_record (root_plan_id);
CREATE INDEX ON original.plan_execution_record (parent_plan_id);
CREATE INDEX ON original.plan_execution_record (tool_call_id);
CREATE INDEX ON original.agent_execution_record (plan_execution_id);
CREATE INDEX ON original.think_act_record (parent_execution_id);
CREATE INDEX ON original.think_act_record (agent_execution_record_id);
CREATE INDEX ON original.act_tool_info (tool_call_id);
CREATE INDEX ON original.act_tool_info (think_act_record_id);
