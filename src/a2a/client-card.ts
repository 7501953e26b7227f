import { DuolaneError } from '../errors.ts';
import { isObject, type JsonObject } from '../json.ts';
import type { Version } from './dialect.ts';

export interface Interface {
  readonly url: string;
  readonly binding: 'JSONRPC' | 'HTTP+JSON';
  readonly version: Version;
  readonly tenant?: string;
}

export interface Preference {
  /** By default the newest that both speak. */
  readonly version?: Version;
  /** By default the first of the card that this client speaks. */
  readonly binding?: 'JSONRPC' | 'HTTP+JSON';
}

/** Where and how to talk to the agent of a card, old or new. Throws `unsupported` when there is no common way. */
export function chooseInterface(card: JsonObject, { version, binding }: Preference): Interface {
  const offered = [...interfaces10(card), ...interfaces03(card)];
  const fitting = offered.filter(
    (each) =>
      (version === undefined || each.version === version) &&
      (binding === undefined || each.binding === binding),
  );
  const chosen = fitting.find((each) => each.version === '1.0') ?? fitting[0];
  if (chosen) return chosen;
  const wanted = [version ?? '1.0 or 0.3', binding ?? 'JSONRPC or HTTP+JSON'].join(' over ');
  throw new DuolaneError('unsupported', `the agent's card offers no A2A ${wanted}`);
}

function interfaces10({ supportedInterfaces }: JsonObject): Interface[] {
  return objects(supportedInterfaces).flatMap(({ url, protocolBinding, protocolVersion, tenant }) =>
    read(url, protocolBinding, protocolVersion, tenant),
  );
}

function interfaces03(card: JsonObject): Interface[] {
  const { url, preferredTransport = 'JSONRPC', additionalInterfaces, protocolVersion } = card;
  if (url === undefined) return [];
  const version = protocolVersion ?? '0.3';
  return [
    ...read(url, preferredTransport, version),
    ...objects(additionalInterfaces).flatMap((each) =>
      read(each['url'], each['transport'], version),
    ),
  ];
}

function read(url: unknown, binding: unknown, version: unknown, tenant?: unknown): Interface[] {
  const [short] = /^\d+\.\d+/.exec(String(version)) ?? [];
  if (typeof url !== 'string' || !URL.canParse(url)) return [];
  if (binding !== 'JSONRPC' && binding !== 'HTTP+JSON') return [];
  if (short !== '1.0' && short !== '0.3') return [];
  const named = typeof tenant === 'string' && tenant !== '';
  return [{ url, binding, version: short, ...(named && { tenant }) }];
}

const objects = (value: unknown): JsonObject[] =>
  Array.isArray(value) ? (value as unknown[]).filter(isObject) : [];
