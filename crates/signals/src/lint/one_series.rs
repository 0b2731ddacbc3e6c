//! Whether an expression gives one series at most.

use promql_parser::parser::{AggregateExpr, BinaryExpr, Expr, LabelModifier, VectorMatchCardinality, token};

/// Whether the form of an expression says that its result is one number. `false` where that depends on the series.
pub(super) fn gives_one(expression: &Expr) -> bool {
    match expression {
        Expr::Aggregate(aggregate) => aggregates_to_one(aggregate),
        Expr::Unary(unary) => gives_one(&unary.expr),
        Expr::Paren(paren) => gives_one(&paren.expr),
        Expr::Subquery(subquery) => gives_one(&subquery.expr),
        Expr::Binary(binary) => combines_to_one(binary),
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) => true,
        Expr::VectorSelector(_) | Expr::MatrixSelector(_) | Expr::Extension(_) => false,
        Expr::Call(call) => match (call.func.name, call.args.args.as_slice()) {
            ("absent" | "absent_over_time" | "pi" | "scalar" | "time" | "vector", _) => true,
            // The buckets of one histogram become one number.
            ("histogram_quantile", [_, buckets]) => gives_one(buckets) || keeps_only_le(buckets),
            (_, arguments) => arguments.iter().all(|argument| gives_one(argument)),
        },
    }
}

fn aggregates_to_one(aggregate: &AggregateExpr) -> bool {
    let id = aggregate.op.id();
    if id == token::T_COUNT_VALUES {
        return false;
    }
    let no_group = match &aggregate.modifier {
        None => true,
        Some(LabelModifier::Include(labels)) => labels.is_empty(),
        Some(LabelModifier::Exclude(_)) => false,
    };
    let picks = [token::T_TOPK, token::T_BOTTOMK, token::T_LIMITK, token::T_LIMIT_RATIO].contains(&id);
    let one_pick = matches!(aggregate.param.as_deref(), Some(Expr::NumberLiteral(number)) if number.val == 1.0);
    gives_one(&aggregate.expr) || (no_group && (!picks || (one_pick && id != token::T_LIMIT_RATIO)))
}

fn keeps_only_le(buckets: &Expr) -> bool {
    match buckets {
        Expr::Paren(paren) => keeps_only_le(&paren.expr),
        Expr::Aggregate(aggregate) => {
            matches!(&aggregate.modifier, Some(LabelModifier::Include(labels)) if labels.labels.iter().all(|label| label == "le"))
        }
        _ => false,
    }
}

fn combines_to_one(binary: &BinaryExpr) -> bool {
    let (left, right) = (gives_one(&binary.lhs), gives_one(&binary.rhs));
    match binary.op.id() {
        token::T_LOR => left && right,
        token::T_LAND | token::T_LUNLESS => left,
        _ if is_number(&binary.lhs) => right,
        _ if is_number(&binary.rhs) => left,
        // Between two vectors each element finds at most one partner, unless grouping lets many share one.
        _ => match binary.modifier.as_ref().map(|modifier| &modifier.card) {
            None | Some(VectorMatchCardinality::OneToOne | VectorMatchCardinality::ManyToMany) => left || right,
            Some(VectorMatchCardinality::ManyToOne(_)) => left,
            Some(VectorMatchCardinality::OneToMany(_)) => right,
        },
    }
}

/// A number rather than a vector, so that the other side is what is left.
fn is_number(expression: &Expr) -> bool {
    expression.value_type() == promql_parser::parser::value::ValueType::Scalar
}
