import { createHash } from 'node:crypto';
import { matchesEtag } from '../../http/etag.ts';
import { omitUndefined, type JsonObject } from '../../json.ts';
import type { Version } from './dialect.ts';
import { RESUME_EXTENSION } from './model.ts';
import { textResponse } from '../../http/text-response.ts';

/** The part of an agent card that its author writes; the server adds the rest. */
export interface AgentDescription {
  readonly name: string;
  readonly description: string;
  readonly version?: string;
  readonly skills?: readonly Skill[];
  /**
   * Media types that the agent accepts, such as `image/*`. The server refuses parts of other types.
   */
  readonly inputModes?: readonly string[];
  readonly outputModes?: readonly string[];
  readonly provider?: { readonly organization: string; readonly url: string };
  readonly documentationUrl?: string;
  readonly iconUrl?: string;
  readonly extensions?: readonly Extension[];
  /** In the form of 1.0; `security` of 0.3 is derived from it. */
  readonly securitySchemes?: Readonly<Record<string, SecurityScheme>>;
  /** The scopes that a caller's token must have, by the name of the scheme. */
  readonly securityScopes?: Readonly<Record<string, readonly string[]>>;
}

/** A skill that the card lists. */
export interface Skill {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly tags?: readonly string[];
  readonly examples?: readonly string[];
}

/** An extension of the protocol that the agent supports. */
export interface Extension {
  readonly uri: string;
  readonly description?: string;
  /** The server refuses callers that do not name it in `A2A-Extensions`. */
  readonly required?: boolean;
  readonly params?: JsonObject;
}

/** A way to authenticate, in the form of A2A 1.0. */
export type SecurityScheme =
  | { readonly httpAuthSecurityScheme: { readonly scheme: string; readonly bearerFormat?: string } }
  | { readonly apiKeySecurityScheme: { readonly location: 'header'; readonly name: string } }
  | { readonly openIdConnectSecurityScheme: { readonly openIdConnectUrl: string } }
  | { readonly oauth2SecurityScheme: { readonly flows: JsonObject } }
  | { readonly mtlsSecurityScheme: JsonObject };

/**
 * The paths of the card under the agent's URL. The second is that of A2A 0.2; some clients still
 * use it.
 */
export const CARD_PATHS: readonly string[] = [
  '/.well-known/agent-card.json',
  '/.well-known/agent.json',
];

/** The media types of a card whose author names none. */
export const DEFAULT_MODES: readonly string[] = ['text/plain', 'text/markdown', 'application/json'];

/** The address of the gRPC binding: `host:port`, as gRPC clients expect it. */
export interface GrpcInterface {
  readonly url: string;
  /**
   * The tenant that callers must name if several agents share the address. A2A 0.3 has no tenants,
   * so the card then offers gRPC for 1.0 only.
   */
  readonly tenant?: string;
}

/** What the server adds to a card. */
export interface CardOptions {
  readonly url: string;
  readonly grpc?: GrpcInterface | undefined;
  readonly pushNotifications: boolean;
  readonly extendedCard: boolean;
  /**
   * `1.0`, `0.3`: only the members of that version. `hybrid`: both, which every client can read.
   */
  readonly shape: Version | 'hybrid';
}

/** Creates the card of an agent that is served in both versions over JSON-RPC, REST and gRPC. */
export function agentCard(description: AgentDescription, options: CardOptions): JsonObject {
  const { url, shape, grpc } = options;
  const { name, description: text, version = '1.0.0', skills = [] } = description;
  const { provider, documentationUrl, iconUrl } = description;
  const shown = skills.length > 0 ? skills : [{ id: 'chat', name, description: text }];
  const schemes = description.securitySchemes ?? {};
  const scopes = description.securityScopes ?? {};
  const security = Object.keys(schemes).map((each) => [each, scopes[each] ?? []] as const);
  return {
    name,
    description: text,
    version,
    ...(shape !== '0.3' && { supportedInterfaces: interfaces(url, grpc) }),
    capabilities: {
      streaming: true,
      pushNotifications: options.pushNotifications,
      ...(shape !== '0.3' && { extendedAgentCard: options.extendedCard }),
      extensions: [resumeExtension, ...(description.extensions ?? [])],
    },
    defaultInputModes: description.inputModes ?? DEFAULT_MODES,
    defaultOutputModes: description.outputModes ?? DEFAULT_MODES,
    skills: shown.map((skill) => ({ ...skill, tags: skill.tags ?? [] })),
    ...omitUndefined({ provider, documentationUrl, iconUrl }),
    ...(security.length > 0 && {
      securitySchemes: shape === '1.0' ? schemes : bothSchemes(schemes, shape),
      ...(shape !== '0.3' && {
        securityRequirements: security.map(([each, list]) => ({ schemes: { [each]: { list } } })),
      }),
      ...(shape !== '1.0' && { security: security.map(([each, list]) => ({ [each]: list })) }),
    }),
    ...(shape !== '1.0' && {
      protocolVersion: '0.3.0',
      url,
      preferredTransport: 'JSONRPC',
      additionalInterfaces: [
        { url, transport: 'JSONRPC' },
        { url, transport: 'HTTP+JSON' },
        ...(grpc && grpc.tenant === undefined ? [{ url: grpc.url, transport: 'GRPC' }] : []),
      ],
      supportsAuthenticatedExtendedCard: options.extendedCard,
    }),
  };
}

const resumeExtension: Extension = {
  uri: RESUME_EXTENSION,
  description:
    'Every event of a stream has an SSE id. Subscribing with Last-Event-ID returns exactly the missed events, also after the end of the task or a restart. A message that is sent twice is one turn.',
};

const interfaces = (url: string, grpc: GrpcInterface | undefined): readonly JsonObject[] =>
  (['1.0', '0.3'] as const).flatMap((protocolVersion) => [
    ...['JSONRPC', 'HTTP+JSON'].map((protocolBinding) => ({
      url,
      protocolBinding,
      protocolVersion,
    })),
    ...(grpc && (protocolVersion === '1.0' || grpc.tenant === undefined)
      ? [{ ...grpc, protocolBinding: 'GRPC', protocolVersion }]
      : []),
  ]);

/**
 * Security schemes for 0.3, which has a member `type`; in a hybrid card beside the member of 1.0.
 */
function bothSchemes(
  schemes: Readonly<Record<string, SecurityScheme>>,
  shape: 'hybrid' | '0.3',
): JsonObject {
  const entries = Object.entries(schemes).map(([name, scheme]) => {
    const encoded = scheme03(scheme);
    return [name, shape === 'hybrid' ? { ...scheme, ...encoded } : encoded];
  });
  return Object.fromEntries(entries) as JsonObject;
}

function scheme03(scheme: SecurityScheme): JsonObject {
  if ('httpAuthSecurityScheme' in scheme) return { type: 'http', ...scheme.httpAuthSecurityScheme };
  if ('apiKeySecurityScheme' in scheme) {
    const { location, name } = scheme.apiKeySecurityScheme;
    return { type: 'apiKey', in: location, name };
  }
  if ('oauth2SecurityScheme' in scheme) return { type: 'oauth2', ...scheme.oauth2SecurityScheme };
  if ('mtlsSecurityScheme' in scheme) return { type: 'mutualTLS', ...scheme.mtlsSecurityScheme };
  return { type: 'openIdConnect', ...scheme.openIdConnectSecurityScheme };
}

/** The HTTP response with a card and its cache headers; 304 if the caller's copy is current. */
export function cardResponse(card: JsonObject, request: Request, since: Date): Response {
  const body = JSON.stringify(card);
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`;
  const headers = {
    'content-type': 'application/json',
    'cache-control': 'public, max-age=60',
    'last-modified': since.toUTCString(),
    etag,
    vary: 'A2A-Version',
  };
  if (matchesEtag(request, etag)) return new Response(null, { status: 304, headers });
  return request.method === 'HEAD'
    ? new Response(null, { headers })
    : textResponse(body, 200, headers);
}
