const schemes = ["auto", "light", "dark"];

// chooseScheme adds the choice between light and dark. The server is told by a cookie: so the next page begins in the right one.
export function chooseScheme(): void {
  const root = document.documentElement;
  const button = document.createElement("button");
  button.type = "button";
  document.querySelector(".controls")?.append(button);
  const chosen = (): string => root.dataset.scheme ?? "auto";
  function show(): void {
    button.textContent = `◐ ${chosen()}`;
    button.title = chosen() === "auto" ? "Light or dark, as the system has it" : `Always ${chosen()}`;
  }
  button.addEventListener("click", () => {
    const next = schemes[(schemes.indexOf(chosen()) + 1) % schemes.length];
    if (next === "auto") delete root.dataset.scheme;
    else root.dataset.scheme = next;
    document.cookie = `actlog-scheme=${next}; path=/; max-age=${next === "auto" ? 0 : 31536000}; samesite=lax`;
    show();
  });
  show();
}
