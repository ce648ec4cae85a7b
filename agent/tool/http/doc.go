// Package http owns the tools that send requests to other servers: http.request, which reads, and http.send, which
// changes something there.
//
// What a model and a server write is treated as hostile. Requests go only to hosts that the program names, and not to
// addresses of private networks, by whatever name or redirect they are reached. No proxy and no cookie is used.
// Secrets that the program has for a host go to that host alone, and no model reads them.
package http
