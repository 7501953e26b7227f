import { createHash } from 'node:crypto';
import { matchesEtag } from '../../http/etag.ts';
import type { JsonObject } from '../../json.ts';
import type { Version } from './dialect.ts';

/** What a person writes about an agent; the rest of the card follows from the server. */
export interface AgentDescription {
  readonly name: string;
  readonly description: string;
  readonly version?: string;
  readonly skills?: readonly Skill[];
  /** Media types that the agent takes, also as `image/*`; a part of another type is refused. */
  readonly inputModes?: readonly string[];
  readonly outputModes?: readonly string[];
  readonly provider?: { readonly organization: string; readonly url: string };
  readonly documentationUrl?: string;
  readonly iconUrl?: string;
  readonly extensions?: readonly Extension[];
  /** In the spelling of 1.0; what 0.3 calls `security` is made from it. */
  readonly securitySchemes?: Readonly<Record<string, SecurityScheme>>;
  /** What a caller's token must grant, by the name of the scheme. */
  readonly securityScopes?: Readonly<Record<string, readonly string[]>>;
}

export interface Skill {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly tags?: readonly string[];
  readonly examples?: readonly string[];
}

export interface Extension {
  readonly uri: string;
  readonly description?: string;
  /** Callers that do not name it in `A2A-Extensions` are refused. */
  readonly required?: boolean;
  readonly params?: JsonObject;
}

export type SecurityScheme =
  | { readonly httpAuthSecurityScheme: { readonly scheme: string; readonly bearerFormat?: string } }
  | { readonly apiKeySecurityScheme: { readonly location: 'header'; readonly name: string } }
  | { readonly openIdConnectSecurityScheme: { readonly openIdConnectUrl: string } }
  | { readonly oauth2SecurityScheme: { readonly flows: JsonObject } }
  | { readonly mtlsSecurityScheme: JsonObject };

/** Where the card is, behind the agent's address; the second as A2A 0.2 has it, which some clients still ask. */
export const CARD_PATHS: readonly string[] = [
  '/.well-known/agent-card.json',
  '/.well-known/agent.json',
];

/** Named by our cards: every event has an id, `Last-Event-ID` resumes behind it, a message sent twice is one. */
export const RESUME_EXTENSION = 'urn:duolane:a2a:resume:v1';

export const DEFAULT_MODES: readonly string[] = ['text/plain', 'text/markdown', 'application/json'];

/** Where gRPC is served: a target as gRPC clients take it, `host:port`. */
export interface GrpcInterface {
  readonly url: string;
  /** What callers must name, where several agents share the address; 0.3 cannot, so it is not offered. */
  readonly tenant?: string;
}

export interface CardOptions {
  readonly url: string;
  readonly grpc?: GrpcInterface | undefined;
  readonly pushNotifications: boolean;
  readonly extendedCard: boolean;
  /** `1.0`: only its members. `hybrid`: those of 0.3 beside them, which every client can read. */
  readonly shape: Version | 'hybrid';
}

/** The card of an agent as a server offers it: both versions, on JSON-RPC and REST at one URL, and on gRPC. */
export function agentCard(description: AgentDescription, options: CardOptions): JsonObject {
  const { url, shape, grpc } = options;
  const { name, description: text, version = '1.0.0', skills = [] } = description;
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
    ...(description.provider && { provider: description.provider }),
    ...(description.documentationUrl !== undefined && {
      documentationUrl: description.documentationUrl,
    }),
    ...(description.iconUrl !== undefined && { iconUrl: description.iconUrl }),
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
    'Every event of a stream has an SSE id; subscribing with Last-Event-ID gives exactly what was missed, also after the end of the task or a restart. A message that is sent twice is one turn.',
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

/** 0.3 says the kind of a scheme in `type`, 1.0 by the name of its member; a hybrid says both. */
function bothSchemes(
  schemes: Readonly<Record<string, SecurityScheme>>,
  shape: 'hybrid' | '0.3',
): JsonObject {
  const entries = Object.entries(schemes).map(([name, scheme]) => {
    const old = scheme03(scheme);
    return [name, shape === 'hybrid' ? { ...scheme, ...old } : old];
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

/** The card's response, with what caches need; 304 when the caller has it already. */
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
  return new Response(request.method === 'HEAD' ? null : body, { headers });
}
