// Package engine runs agents on their own record. It claims runs, carries each with its executor, and
// continues a run that was interrupted from its rows alone: what is on record is returned and not done
// again.
package engine
