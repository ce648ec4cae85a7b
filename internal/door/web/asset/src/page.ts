// The script of all pages. They are whole without it: it makes them quicker, and adds keys.
import { openAnswers } from "./answer";
import { openConversation } from "./conversation";
import { openFind } from "./find";
import { bindKeys, type Key } from "./keys";
import { openList } from "./list";
import { chooseScheme } from "./scheme";
import { sessions } from "./stream";
import { chooseTimes, countOn } from "./time";
import { openTree } from "./tree";

chooseTimes();
chooseScheme();
countOn();
openAnswers();
const keys: Key[] = [{ keys: ["t"], does: "times in UTC or local" }];
const list = document.querySelector<HTMLElement>(".list");
if (list) openList(list);
const conversation = document.querySelector<HTMLElement>(".conversation[data-events]");
if (conversation) openConversation(conversation);
if (location.pathname === "/login") new BroadcastChannel(sessions).postMessage("ended");
const tree = document.querySelector<HTMLElement>("[role=tree]");
const search = document.querySelector<HTMLElement>("input[type=search]");
if (search && !tree) keys.unshift({ keys: ["/"], does: "search", act: () => search.focus() });
if (tree) keys.unshift(...openFind(tree, openTree(tree)));
if (document.querySelector(".compared")) keys.unshift({ keys: ["e"], does: "the next difference" }, { keys: ["E"], does: "the difference before" });
bindKeys(keys);
