package httpd

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Client is who has a part of what is bounded.
type Client struct {
	// Name is the name of the API key, or without keys the address of the peer.
	Name string
	// Connection is the peer's address and port.
	Connection string
}

// quota counts what clients share, of which there is a bounded amount: bytes of memory, turns, streams, connections.
// What is done with who finds no room is for its users. They hold its lock while they call its methods.
type quota struct {
	sync.Mutex
	limits [3]limit
}

// The limits of a quota: what one connection can have, one client, and all together.
const (
	ofConnection = iota
	ofClient
	ofAll
)

type limit struct {
	name    string
	most    int64
	answer  *Problem         // to a request that does not get more
	held    map[string]int64 // by connection or client, if they have some; nil: there is no such limit
	refused int64
}

// newQuota returns a quota for an amount, of which one client can have a share. Requests for more are answered with
// full or over.
func newQuota(amount, share int64, full, over *Problem) *quota {
	return &quota{limits: [3]limit{
		ofClient: {name: "client", most: share, answer: over, held: map[string]int64{}},
		ofAll:    {name: "server", most: amount, answer: full, held: map[string]int64{}},
	}}
}

// everybody is the name under which a quota counts all clients together.
const everybody = "all"

func (c Client) names() [3]string { return [3]string{c.Connection, c.Name, everybody} }

// over returns the first limit above which a client would be with n more; nil: it can have them. A client without a
// name has no share.
func (q *quota) over(client Client, n int64) *limit {
	for i, name := range client.names() {
		if l := &q.limits[i]; l.held != nil && name != "" && l.held[name]+n > l.most {
			return l
		}
	}
	return nil
}

// add counts n more for a client, or less.
func (q *quota) add(client Client, n int64) {
	for i, name := range client.names() {
		l := &q.limits[i]
		if l.held == nil || name == "" {
			continue
		}
		if l.held[name] += n; l.held[name] == 0 {
			delete(l.held, name)
		}
	}
}

// refuse counts a refusal, and returns the answer.
func (l *limit) refuse() *Problem {
	l.refused++
	return l.answer
}

// take adds n if the client can have them. Else it returns the answer to the request.
func (q *quota) take(client Client, n int64) *Problem {
	if over := q.over(client, n); over != nil {
		return over.refuse()
	}
	q.add(client, n)
	return nil
}

// used is how much all clients have.
func (q *quota) used() int64 { return q.limits[ofAll].held[everybody] }

// usedNow is used for those that do not hold the lock.
func (q *quota) usedNow() int64 {
	q.Lock()
	defer q.Unlock()
	return q.used()
}

// metrics returns what is used of the quota, how much there is, and how often more was refused.
func (q *quota) metrics(used, most, refused prometheus.Opts) []prometheus.Collector {
	all := []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts(used), func() float64 { return float64(q.usedNow()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts(most), func() float64 { return float64(q.limits[ofAll].most) }),
	}

	for i := range q.limits {
		l := &q.limits[i]
		if l.held == nil {
			continue
		}

		opts := prometheus.CounterOpts(refused)
		opts.ConstLabels = prometheus.Labels{"limit": l.name}
		maps.Copy(opts.ConstLabels, refused.ConstLabels)
		all = append(all, prometheus.NewCounterFunc(opts, func() float64 {
			q.Lock()
			defer q.Unlock()
			return float64(l.refused)
		}))
	}
	return all
}
