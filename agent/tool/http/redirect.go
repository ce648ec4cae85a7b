package http

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// redirects are the statuses that lead elsewhere.
var redirects = []int{
	http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
	http.StatusPermanentRedirect,
}

// redirected returns the request that follows a redirect; nil if there is none.
func (r *rules) redirected(p *prepared, a *answer) (*prepared, error) {
	if !slices.Contains(redirects, a.status) {
		return nil, nil //nolint:nilnil // no redirect, no error
	}

	location := a.header.Get("Location")
	to, err := p.url.Parse(location)
	if location == "" || err != nil {
		return nil, errors.New("it does not say where to")
	}
	if to, err = parse(to.String()); err != nil {
		return nil, err
	}
	if p.url.Scheme == "https" && to.Scheme != "https" {
		return nil, fmt.Errorf("%s is not encrypted", to)
	}

	next := &prepared{method: p.method, url: to, headers: p.headers}
	if next.secret, err = r.allow(to); err != nil {
		return nil, err
	}
	if to.Host != p.url.Host { // what the model sends was for another host
		next.headers = map[string]string{}
		if accept, ok := p.headers["Accept"]; ok {
			next.headers["Accept"] = accept
		}
	}
	for name := range next.secret {
		delete(next.headers, http.CanonicalHeaderKey(name))
	}
	return next, nil
}
