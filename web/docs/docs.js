// The page of the API: reads /openapi.json and shows it. No libraries, nothing from elsewhere.
"use strict";

const METHODS = ["get", "post", "put", "patch", "delete"];
let api = null;

/** An element with attributes, classes by `class`, and children; texts are texts, never markup. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Text with `code` in it, and an empty line between paragraphs. */
function prose(text) {
  return (text || "").split(/\n\n+/).map((paragraph) => make("p", {}, inline(paragraph)));
}

function inline(text) {
  return (text || "").split(/(`[^`]+`)/).map((part) =>
    part.startsWith("`") && part.length > 2 ? make("code", {}, part.slice(1, -1)) : part);
}

function resolve(schema) {
  let found = schema || {};
  for (let steps = 0; found.$ref && steps < 16; steps += 1) {
    found = found.$ref.split("/").slice(1).reduce((value, key) => (value || {})[key], api) || {};
  }
  return found;
}

const nameOf = (schema) => (schema && schema.$ref ? schema.$ref.split("/").pop() : null);

/** What kind of value it is, in a few words; names of schemas are links. */
function kind(schema) {
  if (!schema) return ["anything"];
  const name = nameOf(schema);
  if (name) return [make("a", { href: "#schema-" + name }, name)];
  const options = schema.oneOf || schema.anyOf;
  if (options) return options.flatMap((option, at) => (at ? [" or ", ...kind(option)] : kind(option)));
  if (schema.allOf) return schema.allOf.flatMap((part, at) => (at ? [" and ", ...kind(part)] : kind(part)));
  if (schema.enum) return [schema.enum.map((value) => JSON.stringify(value)).join(" or ")];
  const types = [schema.type || "anything"].flat();
  if (types.includes("array")) return ["list of ", ...kind(schema.items)];
  return [types.join(" or ") + (schema.format ? " (" + schema.format + ")" : "")];
}

/** An example of a value, as the schema says or as it suggests. */
function example(schema, depth = 0) {
  const found = resolve(schema);
  if (found.example !== undefined) return found.example;
  if (found.default !== undefined) return found.default;
  if (found.enum) return found.enum[0];
  const options = found.oneOf || found.anyOf;
  if (options) return example(options.find((option) => option.type !== "null") || options[0], depth);
  if (found.allOf) return Object.assign({}, ...found.allOf.map((part) => example(part, depth)));
  const type = [found.type].flat().find((one) => one !== "null");
  if (type === "object" || found.properties) {
    if (depth > 4) return {};
    const pairs = Object.entries(found.properties || {}).map(([name, value]) => [name, example(value, depth + 1)]);
    return Object.fromEntries(pairs);
  }
  if (type === "array") return depth > 4 ? [] : [example(found.items, depth + 1)];
  if (type === "integer" || type === "number") return found.minimum || 0;
  if (type === "boolean") return false;
  return type === "null" ? null : "";
}

/** The smallest body that would be taken: required fields, and others that have an example. */
function starter(schema) {
  const found = resolve(schema);
  if (!found.properties) return example(schema);
  const wanted = Object.entries(found.properties).filter(([name]) => (found.required || []).includes(name));
  return Object.fromEntries(wanted.map(([name, value]) => [name, example(value)]));
}

function fields(schema) {
  const found = resolve(schema);
  const parts = found.allOf ? found.allOf.map(resolve) : [found];
  const rows = parts.flatMap((part) => Object.entries(part.properties || {}).map(([name, value]) => {
    const needed = (part.required || []).includes(name);
    const about = value.description || resolve(value).description;
    return make("tr", {}, make("td", {}, make("code", {}, name), needed ? " *" : ""), make("td", {}, kind(value)), make("td", {}, inline(about)));
  }));
  if (!rows.length) return make("p", {}, kind(found));
  return make("table", {}, make("tbody", {}, rows));
}

function parameters(operation) {
  const list = operation.parameters || [];
  if (!list.length) return null;
  const rows = list.map((one) => make("tr", {},
    make("td", {}, make("code", {}, one.name), one.required ? " *" : ""),
    make("td", {}, one.in), make("td", {}, kind(one.schema)), make("td", {}, inline(one.description))));
  return [make("h4", {}, "Parameters"), make("table", {}, make("tbody", {}, rows))];
}

function answers(operation) {
  const rows = Object.entries(operation.responses || {}).map(([status, answer]) => {
    const kinds = Object.entries(answer.content || {}).map(([mime, content]) => make("div", {}, kind(content.schema), make("span", { class: "faint" }, " " + mime)));
    return make("tr", {}, make("td", {}, make("code", {}, status)), make("td", {}, inline(answer.description)), make("td", {}, kinds));
  });
  return [make("h4", {}, "Answers"), make("table", {}, make("tbody", {}, rows))];
}

function isOpen(operation) {
  const security = operation.security || api.security || [];
  return !security.length || security.some((one) => !Object.keys(one).length);
}

/** A form that sends the request. */
function trial(method, path, operation) {
  const inputs = (operation.parameters || []).map((one) => ({ one, input: make("input", { name: one.name, placeholder: one.in, required: one.required }) }));
  const content = operation.requestBody && operation.requestBody.content["application/json"];
  const body = content ? make("textarea", { "aria-label": "Body", spellcheck: "false" }) : null;
  if (body) body.value = JSON.stringify(starter(content.schema), null, 2);
  const answer = make("div", { class: "answer", "aria-live": "polite" });
  const button = make("button", { type: "submit" }, "Send");
  const send = async (event) => {
    event.preventDefault();
    button.disabled = true;
    answer.replaceChildren(await exchange(method, path, inputs, body));
    button.disabled = false;
  };
  return make("form", { class: "try", onsubmit: send },
    make("h4", {}, "Try it"),
    inputs.map(({ one, input }) => make("label", {}, make("span", {}, one.name), input)),
    body, button, answer);
}

async function exchange(method, path, inputs, body) {
  let address = path;
  const query = new URLSearchParams();
  for (const { one, input } of inputs) {
    if (one.in === "path") address = address.replace("{" + one.name + "}", encodeURIComponent(input.value));
    else if (input.value !== "") query.set(one.name, input.value);
  }
  if (query.size) address += "?" + query;
  const headers = {};
  const token = document.getElementById("token").value.trim();
  if (token) headers.Authorization = "Bearer " + token;
  if (body) headers["Content-Type"] = "application/json";
  try {
    const began = performance.now();
    const response = await fetch(address, { method: method.toUpperCase(), headers, body: body ? body.value : undefined });
    const text = await response.text();
    const took = Math.round(performance.now() - began);
    return make("div", {}, make("p", {}, make("strong", {}, response.status + " " + response.statusText), make("span", { class: "faint" }, "  " + took + " ms")), make("pre", {}, pretty(text)));
  } catch (error) {
    return make("p", {}, "The request could not be sent: " + error.message);
  }
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text || "(no body)";
  }
}

function operation(method, path, found) {
  const id = "op-" + (found.operationId || method + path.replace(/\W+/g, "-"));
  const content = found.requestBody && Object.entries(found.requestBody.content || {});
  const body = (content || []).map(([mime, { schema }]) => [
    make("h4", {}, "Body"), make("div", { class: "faint" }, kind(schema), " " + mime), fields(schema),
  ]);
  const element = make("details", { class: "operation", id },
    make("summary", {},
      make("span", { class: "method " + method }, method),
      make("span", { class: "path" }, path),
      make("span", { class: "faint" }, inline(found.summary)),
      isOpen(found) ? make("span", { class: "open" }, "no token needed") : null),
    make("div", { class: "inside" }, prose(found.description), parameters(found), body.flat(), answers(found), trial(method, path, found)));
  return { id, element };
}

function show() {
  document.getElementById("title").textContent = api.info.title;
  document.getElementById("version").textContent = api.info.version;
  document.title = api.info.title + " API";
  document.getElementById("about").replaceChildren(...prose(api.info.description));
  const groups = new Map((api.tags || []).map((tag) => [tag.name, { about: tag.description, items: [] }]));
  for (const [path, item] of Object.entries(api.paths)) {
    for (const method of METHODS.filter((one) => item[one])) {
      const tag = (item[method].tags || ["other"])[0];
      if (!groups.has(tag)) groups.set(tag, { about: "", items: [] });
      groups.get(tag).items.push({ method, path, found: item[method] });
    }
  }
  const contents = [];
  const sections = [];
  for (const [tag, { about, items }] of groups) {
    if (!items.length) continue;
    contents.push(make("h2", {}, tag));
    sections.push(make("h2", {}, tag), ...prose(about));
    for (const { method, path, found } of items) {
      const { id, element } = operation(method, path, found);
      contents.push(make("a", { href: "#" + id }, make("span", { class: "method " + method }, method), path));
      sections.push(element);
    }
  }
  const schemas = Object.entries((api.components || {}).schemas || {}).map(([name, schema]) =>
    make("details", { class: "operation", id: "schema-" + name },
      make("summary", {}, make("span", { class: "path" }, name), make("span", { class: "faint" }, inline((schema.description || "").split("\n")[0]))),
      make("div", { class: "inside" }, fields(schema), make("h4", {}, "Example"), make("pre", {}, JSON.stringify(example(schema), null, 2)))));
  document.getElementById("contents").replaceChildren(...contents);
  document.getElementById("operations").replaceChildren(...sections);
  document.getElementById("schemas").replaceChildren(make("h2", {}, "Schemas"), ...schemas);
}

/** What a link points to is opened. */
function reveal() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && "open" in target) {
    target.open = true;
    target.scrollIntoView();
  }
}

async function start() {
  try {
    const response = await fetch("/openapi.json");
    if (!response.ok) throw new Error("status " + response.status);
    api = await response.json();
    show();
    reveal();
    addEventListener("hashchange", reveal);
  } catch (error) {
    document.getElementById("operations").replaceChildren(make("p", {}, "The description could not be read: " + error.message));
  }
}

start();
