// The sample data: a small shop, the same in every run and on every machine.

export const CITIES = ['Berlin', 'Hamburg', 'Lyon', 'Madrid', 'Porto', 'Vienna'] as const;
export const SEGMENTS = ['consumer', 'business', 'education'] as const;
export const STATUSES = ['delivered', 'open', 'returned'] as const;
export const PRODUCTS: readonly (readonly [name: string, category: string, price: number])[] = [
  ['Desk lamp', 'office', 39.9],
  ['Notebook', 'office', 4.5],
  ['Fountain pen', 'office', 24],
  ['Standing desk', 'furniture', 449],
  ['Office chair', 'furniture', 289],
  ['Bookshelf', 'furniture', 129],
  ['Coffee grinder', 'kitchen', 79],
  ['Tea pot', 'kitchen', 34.5],
  ['Chef knife', 'kitchen', 89.9],
  ['Rain jacket', 'outdoor', 119],
  ['Tent', 'outdoor', 259],
  ['Head torch', 'outdoor', 29.9],
];
export const CATEGORIES: readonly string[] = [...new Set(PRODUCTS.map(([, category]) => category))];
export const YEARS = [2024, 2025] as const;

const FIRST_NAMES = ['Ada', 'Bruno', 'Clara', 'Dario', 'Elif', 'Femi', 'Greta', 'Hugo'];
const LAST_NAMES = ['Arnold', 'Costa', 'Duval', 'Hansen', 'Marín', 'Novak', 'Silva'];
const CUSTOMERS = 56;
const ORDERS = 480;
const DAYS = 731; // of the two years

/** Tables and a view over all three, as SQL for a new database. */
export function sampleSql(): string {
  const next = generator(20_240_101);
  const pick = <T>(list: readonly T[]): T => list[next(list.length)] as T;
  const customers = Array.from({ length: CUSTOMERS }, (_, i) => {
    const name = `${FIRST_NAMES[i % FIRST_NAMES.length]} ${LAST_NAMES[i % LAST_NAMES.length]}`;
    return [i + 1, name, pick(CITIES), pick(SEGMENTS)];
  });
  const products = PRODUCTS.map((product, i) => [i + 1, ...product]);
  const orders = Array.from({ length: ORDERS }, (_, i) => {
    const day = Math.floor((i * DAYS) / ORDERS);
    const status = next(12) === 0 ? 'returned' : i > ORDERS - 24 ? 'open' : 'delivered';
    const date = new Date(Date.UTC(YEARS[0], 0, 1 + day)).toISOString().slice(0, 10);
    return [i + 1, next(CUSTOMERS) + 1, next(PRODUCTS.length) + 1, next(5) + 1, date, status];
  });
  return `
create table customers (id integer, name varchar, city varchar, segment varchar);
create table products (id integer, name varchar, category varchar, price decimal(10, 2));
create table orders (id integer, customer_id integer, product_id integer, quantity integer, ordered_on date, status varchar);
insert into customers values ${rows(customers)};
insert into products values ${rows(products)};
insert into orders values ${rows(orders)};
create view sales as
select o.id as order_id, o.ordered_on, year(o.ordered_on) as year, strftime(o.ordered_on, '%Y-%m') as month,
  o.status, c.name as customer, c.city, c.segment, p.name as product, p.category,
  o.quantity as units, (o.quantity * p.price)::decimal(12, 2) as revenue
from orders o join customers c on c.id = o.customer_id join products p on p.id = o.product_id;`;
}

const rows = (values: readonly (readonly (string | number)[])[]): string =>
  values.map((row) => `(${row.map(literal).join(', ')})`).join(', ');

export const literal = (value: string | number): string =>
  typeof value === 'number' ? String(value) : `'${value.replaceAll("'", "''")}'`;

/** Whole numbers below a limit, in an order that the seed alone decides (a linear congruence). */
function generator(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}
